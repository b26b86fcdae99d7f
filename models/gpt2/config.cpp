#include "models/gpt2/config.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "models/class_names.h"

namespace trainer::models::gpt2 {
namespace {

/// Each size has a GPT-2 name and one shared by all families; transformers accepts both.
void read_sizes(nn::ConfigReader& reader, GPT2Config& c) {
  const auto size = [&](const char* own, const char* shared, int64_t& value) {
    reader.number(shared, 1, value);
    reader.number(own, 1, value);
  };
  reader.number("vocab_size", 1, c.vocab_size);
  size("n_positions", "max_position_embeddings", c.n_positions);
  size("n_embd", "hidden_size", c.n_embd);
  size("n_layer", "num_hidden_layers", c.n_layer);
  size("n_head", "num_attention_heads", c.n_head);
  c.n_inner = 4 * c.n_embd;
  reader.number("n_inner", 1, c.n_inner);
  if (c.n_embd % c.n_head != 0)
    reader.problem(fmt::format("n_embd must be a multiple of n_head; they are {} and {}", c.n_embd, c.n_head));
}

void read_attention(nn::ConfigReader& reader, GPT2Config& c) {
  reader.flag("scale_attn_weights", c.scale_attn_weights);
  reader.flag("scale_attn_by_inverse_layer_idx", c.scale_attn_by_inverse_layer_idx);
  reader.skip({"reorder_and_upcast_attn"});  // only affects rounding in fp16; attention runs in fp32
  bool crosses = false;
  reader.flag("add_cross_attention", crosses);
  if (crosses) reader.problem("add_cross_attention true is not supported: GPT-2 has no encoder");
}

}  // namespace

GPT2Config parse_config(const BuildRequest& request) {
  nn::ConfigReader reader(request.config_json, request.origin, "GPT-2", request.strict);
  GPT2Config c;
  c.task = request.task;
  read_sizes(reader, c);
  reader.activation("activation_function", c.activation_function, c.activation);
  read_attention(reader, c);
  for (auto [key, rate] : {std::pair{"resid_pdrop", &c.resid_pdrop}, std::pair{"embd_pdrop", &c.embd_pdrop},
                           std::pair{"attn_pdrop", &c.attn_pdrop}})
    reader.number(key, 0.0, 0.99, *rate);
  reader.number("layer_norm_epsilon", 0.0, 1.0, c.layer_norm_epsilon);
  reader.number("initializer_range", 0.0, 1e6, c.initializer_range);
  reader.tokens("bos_token_id", c.bos);
  reader.tokens("eos_token_id", c.eos);
  reader.tokens("pad_token_id", c.pad);
  reader.flag("tie_word_embeddings", c.tied_head);
  c.tied_head = c.tied_head && !request.head_is_separate;
  if (c.task == Task::kSequenceClassification) c.labels = read_class_names(reader, request);
  reader.skip({"n_ctx", "summary_type", "summary_use_proj", "summary_activation", "summary_proj_to_labels",
               "summary_first_dropout", "resid_dropout", "embd_dropout", "attn_dropout"});
  reader.skip_common();
  reader.finish();
  return c;
}

std::string config_json(const GPT2Config& c) {
  nlohmann::json json = {{"architectures", {c.class_name()}},
                         {"model_type", "gpt2"},
                         {"vocab_size", c.vocab_size},
                         {"n_positions", c.n_positions},
                         {"n_embd", c.n_embd},
                         {"n_layer", c.n_layer},
                         {"n_head", c.n_head},
                         {"n_inner", c.n_inner},
                         {"activation_function", c.activation_function},
                         {"resid_pdrop", c.resid_pdrop},
                         {"embd_pdrop", c.embd_pdrop},
                         {"attn_pdrop", c.attn_pdrop},
                         {"layer_norm_epsilon", c.layer_norm_epsilon},
                         {"initializer_range", c.initializer_range},
                         {"scale_attn_weights", c.scale_attn_weights},
                         {"scale_attn_by_inverse_layer_idx", c.scale_attn_by_inverse_layer_idx},
                         {"tie_word_embeddings", c.tied_head},
                         {"use_cache", true},
                         {"bos_token_id", nn::tokens_json(c.bos)},
                         {"eos_token_id", nn::tokens_json(c.eos)},
                         {"pad_token_id", nn::tokens_json(c.pad)},
                         {"dtype", "float32"}};
  write_class_names(json, c.labels);
  return json.dump(2) + "\n";
}

}  // namespace trainer::models::gpt2
