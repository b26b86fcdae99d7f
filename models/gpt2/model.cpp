#include "models/gpt2/model.h"

#include <ATen/TensorOperators.h>

#include "models/nn/embedding_noise.h"
#include "models/nn/position_ids.h"

namespace trainer::models::gpt2 {
namespace {

nn::Slot<nn::Linear> make_head(GPT2WithHead& model, const GPT2Config& c, GPT2Stack& stack) {
  if (c.task == Task::kSequenceClassification)
    return {model, "score", c.n_embd, static_cast<int64_t>(c.labels.size()), false, c.weight_init()};
  if (c.tied_head) return {model, "lm_head", stack.embedding().weight()};
  return {model, "lm_head", c.n_embd, c.vocab_size, false, c.weight_init()};
}

}  // namespace

GPT2Stack::GPT2Stack(const GPT2Config& c)
    : DecoderStack("GPT2Model"),
      config_(c),
      wte_(*this, "wte", c.vocab_size, c.n_embd, c.weight_init()),
      wpe_(*this, "wpe", c.n_positions, c.n_embd, c.weight_init()),
      h_(*this, "h"),
      ln_f_(*this, "ln_f", c.n_embd, c.layer_norm_epsilon) {
  for (int64_t i = 0; i < c.n_layer; ++i) h_->add(c, i);
}

std::vector<nn::Module*> GPT2Stack::blocks() {
  std::vector<nn::Module*> all;
  for (int64_t i = 0; i < h_->size(); ++i) all.push_back(&(*h_)[i]);
  return all;
}

nn::Rows GPT2Stack::embed(const nn::Rows& ids, const nn::Pass& pass) {
  const nn::Rows words =
      nn::with_noise((*wte_)(ids, pass), pass, wte_->path());  // only this rank's rows under sequence parallelism
  const at::Tensor positions =
      nn::position_ids(*words.layout, pass, config_.n_positions, "n_positions", ids.x.device());
  return words.with(nn::dropout(words.x + (*wpe_)(words.with(positions), pass).x,
                                pass.dropout(path() + ".drop", config_.embd_pdrop), words.layout));
}

GPT2WithHead::GPT2WithHead(const GPT2Config& c)
    : DecoderModel(c.class_name(), c.task),
      config_(c),
      transformer_(*this, "transformer", c),
      head_(make_head(*this, c, *transformer_)) {
  name_tree();
}

TensorPlan GPT2WithHead::tensor_plan() const {
  return {.divided = {{"n_head", config_.n_head}, {"n_inner", config_.n_inner}},
          .regions = {{"attn"}, {"mlp"}},
          .columns = {{.layer = "c_attn", .fused = 3}, {"c_fc"}},
          .rows = {"c_proj"},
          .embeddings = {"wte"},
          .stacks = {"transformer"},
          .head = classifies() ? "" : "lm_head"};
}

std::unique_ptr<Model> build(const BuildRequest& request) {
  return std::make_unique<GPT2WithHead>(parse_config(request));
}

}  // namespace trainer::models::gpt2
