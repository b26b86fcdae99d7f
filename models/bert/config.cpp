#include "models/bert/config.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "models/class_names.h"

namespace trainer::models::bert {
namespace {

void read_sizes(nn::ConfigReader& reader, BertConfig& c) {
  reader.number("vocab_size", 1, c.vocab_size);
  reader.number("hidden_size", 1, c.hidden_size);
  reader.number("num_hidden_layers", 1, c.num_hidden_layers);
  reader.number("num_attention_heads", 1, c.num_attention_heads);
  reader.number("intermediate_size", 1, c.intermediate_size);
  reader.number("max_position_embeddings", 1, c.max_position_embeddings);
  reader.number("type_vocab_size", 1, c.type_vocab_size);
  if (c.hidden_size % c.num_attention_heads != 0)
    reader.problem(fmt::format("hidden_size must be a multiple of num_attention_heads; they are {} and {}",
                               c.hidden_size, c.num_attention_heads));
}

void read_rates(nn::ConfigReader& reader, BertConfig& c) {
  reader.number("hidden_dropout_prob", 0.0, 0.99, c.hidden_dropout_prob);
  reader.number("attention_probs_dropout_prob", 0.0, 0.99, c.attention_probs_dropout_prob);
  c.classifier_dropout = c.hidden_dropout_prob;
  reader.number("classifier_dropout", 0.0, 0.99, c.classifier_dropout);
}

/// Refuses variants of BERT that transformers has and this implementation lacks.
void refuse_other_kinds(nn::ConfigReader& reader) {
  std::string positions = "absolute";
  reader.text("position_embedding_type", positions);
  if (positions != "absolute")
    reader.problem(fmt::format("position_embedding_type {} is not supported; only absolute is", positions));
  for (const char* key : {"is_decoder", "add_cross_attention"}) {
    bool asked = false;
    reader.flag(key, asked);
    if (asked) reader.problem(fmt::format("{} true is not supported: only BERT as an encoder is", key));
  }
}

}  // namespace

BertConfig parse_config(const BuildRequest& request) {
  nn::ConfigReader reader(request.config_json, request.origin, "BERT", request.strict);
  BertConfig c;
  read_sizes(reader, c);
  read_rates(reader, c);
  refuse_other_kinds(reader);
  reader.activation("hidden_act", c.hidden_act, c.activation);
  reader.number("initializer_range", 0.0, 1e6, c.initializer_range);
  reader.number("layer_norm_eps", 0.0, 1.0, c.layer_norm_eps);
  reader.number("pad_token_id", 0, c.pad_token_id);
  c.labels = read_class_names(reader, request);
  reader.skip({"bos_token_id", "eos_token_id", "tie_word_embeddings", "directionality", "pooler_fc_size",
               "pooler_num_attention_heads", "pooler_num_fc_layers", "pooler_size_per_head", "pooler_type"});
  reader.skip_common();
  reader.finish();
  return c;
}

std::string config_json(const BertConfig& c) {
  nlohmann::json json = {{"architectures", {"BertForSequenceClassification"}},
                         {"model_type", "bert"},
                         {"vocab_size", c.vocab_size},
                         {"hidden_size", c.hidden_size},
                         {"num_hidden_layers", c.num_hidden_layers},
                         {"num_attention_heads", c.num_attention_heads},
                         {"intermediate_size", c.intermediate_size},
                         {"max_position_embeddings", c.max_position_embeddings},
                         {"type_vocab_size", c.type_vocab_size},
                         {"hidden_act", c.hidden_act},
                         {"hidden_dropout_prob", c.hidden_dropout_prob},
                         {"attention_probs_dropout_prob", c.attention_probs_dropout_prob},
                         {"classifier_dropout", c.classifier_dropout},
                         {"initializer_range", c.initializer_range},
                         {"layer_norm_eps", c.layer_norm_eps},
                         {"pad_token_id", c.pad_token_id},
                         {"problem_type", "single_label_classification"},
                         {"dtype", "float32"}};
  write_class_names(json, c.labels);
  return json.dump(2) + "\n";
}

}  // namespace trainer::models::bert
