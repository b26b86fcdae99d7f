#include "models/t5/model.h"

#include <cmath>

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "models/nn/embedding_noise.h"

namespace trainer::models::t5 {

T5Stack::T5Stack(const T5Config& c, bool decoder, const nn::ParameterPtr& shared)
    : Module("T5Stack"),
      dropout_(c.dropout_rate),
      embed_tokens_(*this, "embed_tokens", shared),
      block_(*this, "block"),
      final_layer_norm_(*this, "final_layer_norm", c.d_model, c.layer_norm_epsilon) {
  for (int64_t i = 0; i < (decoder ? c.num_decoder_layers : c.num_layers); ++i) block_->add(c, decoder, i);
}

nn::Rows T5Stack::operator()(const nn::Rows& ids, const nn::Rows& memory, const nn::Pass& pass) {
  return Module::operator()({ids, memory}, pass)[0];
}

nn::RowsList T5Stack::forward(const nn::RowsList& in, const nn::Pass& pass) {
  const auto dropped = [&](const nn::Rows& x, const char* layer) {
    return x.with(nn::dropout(x.x, pass.dropout(path() + layer, dropout_), x.layout));
  };
  nn::Rows x = dropped(nn::with_noise((*embed_tokens_)(in[0], pass), pass, embed_tokens_->path()), ".embed_tokens"),
           bias;
  for (int64_t i = 0; i < block_->size(); ++i) {
    const auto out = (*block_)[i]({x, bias, in[1]}, pass);
    x = out[0], bias = out[1];
  }
  return {dropped((*final_layer_norm_)(x, pass), ".final_layer_norm")};
}

T5Model::T5Model(const T5Config& c)
    : Model("T5ForConditionalGeneration", Task::kSeq2SeqLm),
      config_(c),
      shared_(*this, "shared", c.vocab_size, c.d_model, nn::Init{nn::Init::kNormal, c.initializer_factor}),
      encoder_(*this, "encoder", c, false, shared_->weight()),
      decoder_(*this, "decoder", c, true, shared_->weight()),
      lm_head_(c.tied_head ? nn::Slot<nn::Linear>(*this, "lm_head", shared_->weight())
                           : nn::Slot<nn::Linear>(*this, "lm_head", c.d_model, c.vocab_size, false,
                                                  nn::Init{nn::Init::kNormal, c.initializer_factor})) {
  name_tree();
}

at::Tensor T5Model::logits(const Batch& batch, const nn::Pass& pass) {
  return (*this)({{batch.source_ids, batch.source}, {decoder_inputs(batch), batch.target}}, pass)[0].x;
}

at::Tensor T5Model::loss_sum(const Batch& batch, const nn::Pass& pass) {
  return (*this)({{batch.source_ids, batch.source}, {decoder_inputs(batch), batch.target}, {batch.labels}}, pass)[0].x;
}

nn::RowsList T5Model::forward(const nn::RowsList& in, const nn::Pass& pass) {
  const nn::Rows memory = encoded(in[0], pass);
  const nn::Rows states = scaled((*decoder_)(in[1], memory, pass));
  return {in.size() == 2 ? (*lm_head_)(states, pass) : head_loss(*lm_head_, states, in[2].x, pass)};
}

std::string T5Model::keep_encoder_output(int64_t bytes, bool dropout) {
  if (dropout && config_.dropout_rate > 0) return "dropout is on; set training.dropout: false";
  for (const nn::ParameterPtr& p : encoder_->all_parameters())
    if (p->trainable) return fmt::format("the encoder is trained: {}", p->name);
  encoder_cache_.emplace(bytes);
  return "";
}

nn::Rows T5Model::encoded(const nn::Rows& ids, const nn::Pass& pass) {
  const auto encode = [&](const nn::Rows& of) { return (*encoder_)(of, {}, pass); };
  const bool draws = pass.training && (config_.dropout_rate > 0 || pass.embedding_noise > 0);
  const bool repeats = encoder_cache_ && !draws && !pass.prefix && ids.x.is_cpu() && !ids.layout->has_gaps();
  return repeats ? encoder_cache_->rows_of(ids, encode) : encode(ids);
}

nn::Rows T5Model::scaled(const nn::Rows& hidden) const {
  if (!config_.scale_outputs) return hidden;
  return hidden.with(hidden.x * std::pow(static_cast<double>(config_.d_model), -0.5));
}

at::Tensor T5Model::decoder_inputs(const Batch& batch) const {
  const at::Tensor labels = batch.labels.contiguous();
  at::Tensor ids = at::empty_like(labels);
  if (labels.is_meta()) return ids;
  const auto* const from = labels.const_data_ptr<int64_t>();
  auto* const to = ids.data_ptr<int64_t>();
  for (const nn::Span& span : batch.target->spans)
    for (int64_t i = 0; i < span.length; ++i) {
      const int64_t before = i == 0 ? config_.decoder_start_token_id : from[span.begin + i - 1];
      to[span.begin + i] = before < 0 ? config_.pad_token_id : before;
    }
  return ids;
}

nn::Rows T5Model::begin_decoding(const Batch& batch, const nn::Pass& pass) {
  pass.cache->memory = encoded({batch.source_ids, batch.source}, pass);
  return {at::full({batch.source->samples()}, config_.decoder_start_token_id, batch.source_ids.options()),
          nn::one_row_each(batch.source->sample_index)};
}

at::Tensor T5Model::decode(const at::Tensor& tokens, const nn::Pass& pass) {
  return (*lm_head_)(scaled((*decoder_)({tokens, pass.cache->step}, pass.cache->memory, pass)), pass).x;
}

std::vector<nn::Module*> T5Model::blocks() {
  std::vector<nn::Module*> all;
  for (T5Stack* stack : {&*encoder_, &*decoder_})
    for (int64_t i = 0; i < stack->blocks().size(); ++i) all.push_back(&stack->blocks()[i]);
  return all;
}

TensorPlan T5Model::tensor_plan() const {
  return {.divided = {{"num_heads", config_.num_heads}, {"d_ff", config_.d_ff}},
          .regions = {{"SelfAttention"}, {"EncDecAttention", {0, 2}}, {"DenseReluDense"}},
          .columns = {{"q"}, {"k"}, {"v"}, {"relative_attention_bias"}, {"wi"}, {"wi_0"}, {"wi_1"}},
          .rows = {"o", "wo"},
          .embeddings = {"embed_tokens"},
          .stacks = {"encoder", "decoder"},
          .head = "lm_head"};
}

std::string T5Model::config_json() const {
  const T5Config& c = config_;
  const nlohmann::json json = {{"architectures", {class_name()}},
                               {"model_type", "t5"},
                               {"vocab_size", c.vocab_size},
                               {"d_model", c.d_model},
                               {"d_kv", c.d_kv},
                               {"d_ff", c.d_ff},
                               {"num_layers", c.num_layers},
                               {"num_decoder_layers", c.num_decoder_layers},
                               {"num_heads", c.num_heads},
                               {"relative_attention_num_buckets", c.relative_attention_num_buckets},
                               {"relative_attention_max_distance", c.relative_attention_max_distance},
                               {"dropout_rate", c.dropout_rate},
                               {"layer_norm_epsilon", c.layer_norm_epsilon},
                               {"initializer_factor", c.initializer_factor},
                               {"feed_forward_proj", c.feed_forward_proj},
                               {"is_encoder_decoder", true},
                               {"use_cache", true},
                               {"pad_token_id", c.pad_token_id},
                               {"eos_token_id", c.eos_token_id},
                               {"decoder_start_token_id", c.decoder_start_token_id},
                               {"tie_word_embeddings", c.tied_head},
                               {"scale_decoder_outputs", c.scale_outputs},
                               {"dtype", "float32"}};
  return json.dump(2) + "\n";
}

std::unique_ptr<Model> build(const BuildRequest& request) {
  return std::make_unique<T5Model>(parse_config(request));
}

}  // namespace trainer::models::t5
