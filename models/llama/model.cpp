#include "models/llama/model.h"

#include "models/nn/rope.h"

namespace trainer::models::llama {
namespace {

nn::Slot<nn::Linear> make_head(LlamaModel& model, const Config& c, Decoder& decoder) {
  if (c.classifies()) return {model, "score", c.hidden_size, static_cast<int64_t>(c.labels.size()), false, c.init()};
  if (c.tied_head) return {model, "lm_head", decoder.embedding().weight()};
  return {model, "lm_head", c.hidden_size, c.vocab_size, false, c.init()};
}

}  // namespace

Decoder::Decoder(const Config& c)
    : DecoderStack(c.dialect.prefix + c.dialect.text + "Model"),
      config_(c),
      embed_tokens_(*this, "embed_tokens", c.vocab_size, c.hidden_size, c.init(), c.embedding_scale),
      layers_(*this, "layers"),
      norm_(*this, "norm", c, c.hidden_size) {
  for (int64_t i = 0; i < c.layers; ++i) layers_->add(c, i);
  if (c.pad.size() == 1 && c.pad.front() < c.vocab_size) embed_tokens_->freeze_row(c.pad.front());
}

std::vector<nn::Module*> Decoder::blocks() {
  std::vector<nn::Module*> all;
  for (int64_t i = 0; i < layers_->size(); ++i) all.push_back(&(*layers_)[i]);
  return all;
}

nn::RowsList Decoder::block_inputs(const nn::Rows& states, const nn::Pass& pass) {
  const auto table = [&](const nn::RopeOptions& rope) {
    return nn::Rows{nn::rope_table(rope, config_.head_dim, states.layout->in_region(), pass, states.x.device())};
  };
  if (!config_.rope_by_layer) return {table(config_.rope.full)};
  return {table(config_.rope.full), table(config_.rope.sliding)};
}

LlamaModel::LlamaModel(const Config& c)
    : DecoderModel(c.class_name(), c.task), config_(c), model_(*this, "model", c), head_(make_head(*this, c, *model_)) {
  name_tree();
}

TensorPlan LlamaModel::tensor_plan() const {
  return {.divided = {{"num_attention_heads", config_.heads},
                      {"num_key_value_heads", config_.kv_heads},
                      {"intermediate_size", config_.intermediate_size}},
          .regions = {{"self_attn"}, {"mlp"}},
          .columns = {{"q_proj"}, {"k_proj"}, {"v_proj"}, {"gate_proj"}, {"up_proj"}},
          .rows = {"o_proj", "down_proj"},
          .embeddings = {"embed_tokens"},
          .stacks = {"model"},
          .head = classifies() ? "" : "lm_head"};
}

std::unique_ptr<Model> build(const BuildRequest& request, const Dialect& dialect) {
  return std::make_unique<LlamaModel>(parse_config(request, dialect));
}

std::unique_ptr<Model> build(const BuildRequest& request) {
  return build(request, Dialect{});
}

}  // namespace trainer::models::llama
