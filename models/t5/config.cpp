#include "models/t5/config.h"

#include <fmt/format.h>

#include "models/nn/config_reader.h"

namespace trainer::models::t5 {
namespace {

void read_activation(nn::ConfigReader& reader, T5Config& c) {
  reader.text("feed_forward_proj", c.feed_forward_proj);
  std::string name = c.feed_forward_proj;
  constexpr std::string_view kGated = "gated-";
  c.gated = name.starts_with(kGated);
  if (c.gated) name = name.substr(kGated.size());
  if (c.gated && name == "gelu") name = "gelu_new";  // as transformers reads "gated-gelu"
  if (const auto known = nn::activation_of(name))
    c.activation = *known;
  else
    reader.wrong("feed_forward_proj", fmt::format("one of {}, or one of them after 'gated-'", nn::activation_names()));
}

/// transformers 5 always writes tie_word_embeddings true and stores the old flag as scale_decoder_outputs.
void read_ties(nn::ConfigReader& reader, const BuildRequest& request, T5Config& c) {
  bool tied = true;
  reader.flag("tie_word_embeddings", tied);
  c.scale_outputs = tied;
  reader.flag("scale_decoder_outputs", c.scale_outputs);
  c.tied_head = request.strict ? tied : !request.head_is_separate;
}

}  // namespace

T5Config parse_config(const BuildRequest& request) {
  nn::ConfigReader reader(request.config_json, request.origin, "T5", request.strict);
  T5Config c;
  reader.number("vocab_size", 1, c.vocab_size);
  reader.number("d_model", 1, c.d_model);
  reader.number("d_kv", 1, c.d_kv);
  reader.number("d_ff", 1, c.d_ff);
  reader.number("num_layers", 1, c.num_layers);
  c.num_decoder_layers = c.num_layers;
  reader.number("num_decoder_layers", 1, c.num_decoder_layers);
  reader.number("num_heads", 1, c.num_heads);
  reader.number("relative_attention_num_buckets", 4, c.relative_attention_num_buckets);
  reader.number("relative_attention_max_distance", 1, c.relative_attention_max_distance);
  // A decoder has a bucket for each distance below half of them, and the others reach from there to the greatest.
  if (const int64_t exact = c.relative_attention_num_buckets / 2; c.relative_attention_max_distance <= exact)
    reader.wrong("relative_attention_max_distance",
                 fmt::format("above {}, half of relative_attention_num_buckets", exact));
  reader.number("dropout_rate", 0.0, 0.99, c.dropout_rate);
  reader.number("layer_norm_epsilon", 0.0, 1.0, c.layer_norm_epsilon);
  reader.number("initializer_factor", 0.0, 1e6, c.initializer_factor);
  reader.number("pad_token_id", 0, c.pad_token_id);
  reader.number("eos_token_id", 0, c.eos_token_id);
  c.decoder_start_token_id = c.pad_token_id;
  reader.number("decoder_start_token_id", 0, c.decoder_start_token_id);
  read_activation(reader, c);
  read_ties(reader, request, c);
  reader.skip({"n_positions", "classifier_dropout", "dense_act_fn", "is_gated_act"});
  reader.skip_common();
  reader.finish();
  return c;
}

}  // namespace trainer::models::t5
