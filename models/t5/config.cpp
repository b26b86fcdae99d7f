#include "models/t5/config.h"

#include <set>
#include <vector>

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "engine/base/edit_distance.h"
#include "engine/base/errors.h"

namespace trainer::models::t5 {
namespace {

/// Reads keys of one JSON object and collects what is wrong.
class Reader {
 public:
  explicit Reader(const nlohmann::json& json) : json_(json) {}

  bool has(const char* key) {
    known_.insert(key);
    const auto found = json_.find(key);
    return found != json_.end() && !found->is_null();
  }
  void number(const char* key, int64_t least, int64_t& value) {
    constexpr int64_t kMost = int64_t{1} << 31;
    if (!has(key)) return;
    const auto& given = json_[key];
    if (!given.is_number_integer() || given.get<double>() < static_cast<double>(least) || given.get<double>() > kMost)
      return wrong(key, fmt::format("an integer of at least {}", least));
    value = given.get<int64_t>();
  }
  void number(const char* key, double least, double most, double& value) {
    if (!has(key)) return;
    if (!json_[key].is_number() || !(json_[key].get<double>() >= least && json_[key].get<double>() <= most))
      return wrong(key, fmt::format("a number from {} to {}", least, most));
    value = json_[key].get<double>();
  }
  void flag(const char* key, bool& value) {
    if (!has(key)) return;
    if (!json_[key].is_boolean()) return wrong(key, "true or false");
    value = json_[key].get<bool>();
  }
  void text(const char* key, std::string& value) {
    if (!has(key)) return;
    if (!json_[key].is_string()) return wrong(key, "text");
    value = json_[key].get<std::string>();
  }
  void wrong(const char* key, const std::string& wanted) {
    problems_.push_back(
        fmt::format("{} must be {}; is {}", key, wanted, json_.contains(key) ? json_[key].dump() : "absent"));
  }
  /// Keys nobody asked for.
  void refuse_unknown() {
    for (const auto& [key, value] : json_.items())
      if (known_.count(key) == 0) problems_.push_back(fmt::format("{} is not a key of T5's config{}", key, hint(key)));
  }
  const std::vector<std::string>& problems() const { return problems_; }

 private:
  std::string hint(const std::string& key) const {
    std::string nearest;
    size_t best = 4;
    for (const auto& known : known_)
      if (const auto distance = edit_distance(key, known); distance < best) best = distance, nearest = known;
    return nearest.empty() ? "" : fmt::format("; did you mean '{}'?", nearest);
  }

  const nlohmann::json& json_;
  std::set<std::string> known_;
  std::vector<std::string> problems_;
};

void read_activation(Reader& reader, T5Config& c) {
  reader.text("feed_forward_proj", c.feed_forward_proj);
  std::string name = c.feed_forward_proj;
  constexpr std::string_view kGated = "gated-";
  c.gated = name.starts_with(kGated);
  if (c.gated) name = name.substr(kGated.size());
  if (name == "relu")
    c.activation = nn::Activation::kRelu;
  else if (name == "gelu")  // transformers reads "gated-gelu" as gelu_new
    c.activation = c.gated ? nn::Activation::kGeluNew : nn::Activation::kGelu;
  else if (name == "gelu_new")
    c.activation = nn::Activation::kGeluNew;
  else if (name == "silu" || name == "swish")
    c.activation = nn::Activation::kSilu;
  else
    reader.wrong("feed_forward_proj", "relu, gelu, gelu_new or silu, or one of them after 'gated-'");
}

/// See the tie trap: transformers 5 writes tie_word_embeddings true always, and the old flag as scale_decoder_outputs.
void read_ties(Reader& reader, const BuildRequest& request, T5Config& c) {
  bool tied = true;
  reader.flag("tie_word_embeddings", tied);
  c.scale_outputs = tied;
  reader.flag("scale_decoder_outputs", c.scale_outputs);
  c.tied_head = request.strict ? tied : !request.head_is_separate;
}

/// Keys of every Hugging Face config that change nothing here.
void skip_common(Reader& reader) {
  for (const char* key :
       {"model_type", "architectures", "transformers_version", "dtype", "torch_dtype", "is_encoder_decoder",
        "use_cache", "_name_or_path", "n_positions", "output_past", "task_specific_params", "classifier_dropout",
        "dense_act_fn", "is_gated_act", "tokenizer_class", "name_or_path", "id2label", "label2id"})
    reader.has(key);
}

}  // namespace

T5Config parse_config(const BuildRequest& request) {
  const auto json = nlohmann::json::parse(request.config_json);
  Reader reader(json);
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
  reader.number("dropout_rate", 0.0, 0.99, c.dropout_rate);
  reader.number("layer_norm_epsilon", 0.0, 1.0, c.layer_norm_epsilon);
  reader.number("initializer_factor", 0.0, 1e6, c.initializer_factor);
  reader.number("pad_token_id", 0, c.pad_token_id);
  reader.number("eos_token_id", 0, c.eos_token_id);
  c.decoder_start_token_id = c.pad_token_id;
  reader.number("decoder_start_token_id", 0, c.decoder_start_token_id);
  read_activation(reader, c);
  read_ties(reader, request, c);
  skip_common(reader);
  if (request.strict) reader.refuse_unknown();
  if (reader.problems().empty()) return c;
  const auto message = fmt::format("{}:\n  {}", request.origin, fmt::join(reader.problems(), "\n  "));
  if (request.strict) throw ConfigError(message);
  throw InputError(message);
}

}  // namespace trainer::models::t5
