#include "models/nn/config_reader.h"

#include <algorithm>
#include <cmath>

#include <fmt/ranges.h>

#include "engine/base/bounded_json.h"
#include "engine/base/edit_distance.h"
#include "engine/base/errors.h"

namespace trainer::nn {
namespace {

constexpr int64_t kMost = int64_t{1} << 31;

bool is_integer(const nlohmann::json& value, int64_t least) {
  // Compared as double, because an unsigned number beyond int64 would wrap.
  return value.is_number_integer() && value.get<double>() >= static_cast<double>(least) &&
         value.get<double>() <= static_cast<double>(kMost);
}

template <class F>
bool all_of(const nlohmann::json& value, const F& is) {
  return value.is_array() && std::all_of(value.begin(), value.end(), is);
}

}  // namespace

ConfigReader::ConfigReader(const std::string& text, std::string origin, std::string family, bool strict)
    : json_(std::make_shared<nlohmann::json>(bounded_json(text))),
      origin_(std::move(origin)),
      family_(std::move(family)),
      strict_(strict),
      problems_(std::make_shared<std::vector<std::string>>()) {}

bool ConfigReader::has(const std::string& key) {
  known_.insert(key);
  const auto found = json_->find(key);
  return found != json_->end() && !found->is_null();
}

bool ConfigReader::is_null(const std::string& key) const {
  const auto found = json_->find(key);
  return found != json_->end() && found->is_null();
}

void ConfigReader::number(const std::string& key, int64_t least, int64_t& value) {
  if (!has(key)) return;
  if (!is_integer(this->value(key), least)) return wrong(key, fmt::format("an integer of at least {}", least));
  // A model is built layer by layer before its weights are looked up, so a huge count must be refused.
  constexpr int64_t kMostLayers = 10'000, kMost = int64_t{1} << 40;
  const int64_t most = key.find("layer") != std::string::npos ? kMostLayers : kMost;
  const auto given = this->value(key).get<int64_t>();
  if (given > most) return wrong(key, fmt::format("at most {}", most));
  value = given;
}

void ConfigReader::number(const std::string& key, double least, double most, double& value) {
  if (!has(key)) return;
  const auto& given = this->value(key);
  if (!given.is_number() || !(given.get<double>() >= least && given.get<double>() <= most))
    return wrong(key, fmt::format("a number from {} to {}", least, most));
  value = given.get<double>();
}

void ConfigReader::numbers(const std::string& key, std::vector<double>& values) {
  if (!has(key)) return;
  if (!all_of(value(key), [](const auto& v) { return v.is_number() && v.template get<double>() > 0; }))
    return wrong(key, "a list of positive numbers");
  values = value(key).get<std::vector<double>>();
}

void ConfigReader::flag(const std::string& key, bool& value) {
  if (!has(key)) return;
  if (!this->value(key).is_boolean()) return wrong(key, "true or false");
  value = this->value(key).get<bool>();
}

void ConfigReader::activation(const std::string& key, std::string& name, Activation& value) {
  text(key, name);
  if (const auto known = activation_of(name))
    value = *known;
  else
    wrong(key, "one of " + activation_names());
}

void ConfigReader::text(const std::string& key, std::string& value) {
  if (!has(key)) return;
  if (!this->value(key).is_string()) return wrong(key, "text");
  value = this->value(key).get<std::string>();
}

void ConfigReader::texts(const std::string& key, std::vector<std::string>& values) {
  if (!has(key)) return;
  if (!all_of(value(key), [](const auto& v) { return v.is_string(); })) return wrong(key, "a list of texts");
  values = value(key).get<std::vector<std::string>>();
}

void ConfigReader::tokens(const std::string& key, std::vector<int64_t>& values) {
  if (is_null(key)) values.clear();
  if (!has(key)) return;
  const nlohmann::json given = value(key).is_array() ? value(key) : nlohmann::json::array({value(key)});
  if (!all_of(given, [](const auto& v) { return is_integer(v, 0); })) return wrong(key, "a token id or a list of them");
  values = given.get<std::vector<int64_t>>();
}

std::vector<std::string> ConfigReader::class_names() {
  skip({"label2id"});
  int64_t count = 2;
  number("num_labels", 1, count);
  if (has("id2label")) {
    const auto& names = value("id2label");
    std::vector<std::string> found;
    while (names.is_object() && found.size() < names.size()) {
      const auto name = names.find(std::to_string(found.size()));
      if (name == names.end() || !name->is_string()) break;
      found.push_back(name->get<std::string>());
    }
    if (!found.empty() && found.size() == names.size()) return found;
    wrong("id2label", "an object with the name of each class by its index: {\"0\": …, \"1\": …}");
  }
  std::vector<std::string> names;
  constexpr int64_t kMostClasses = 1 << 20;
  if (count > kMostClasses) wrong("num_labels", fmt::format("at most {}", kMostClasses)), count = 2;
  for (int64_t i = 0; i < count; ++i) names.push_back(fmt::format("LABEL_{}", i));
  return names;
}

void ConfigReader::skip(std::initializer_list<const char*> keys) {
  known_.insert(keys.begin(), keys.end());
}

void ConfigReader::skip_common() {
  skip({"model_type",
        "architectures",
        "transformers_version",
        "dtype",
        "torch_dtype",
        "use_cache",
        "_name_or_path",
        "name_or_path",
        "output_past",
        "tokenizer_class",
        "task_specific_params",
        "is_encoder_decoder",
        "id2label",
        "label2id",
        "num_labels",
        "problem_type",
        "output_hidden_states",
        "output_attentions",
        "return_dict",
        "torchscript",
        "_attn_implementation",
        "use_bfloat16",
        "is_decoder",
        "auto_map",
        "chunk_size_feed_forward",
        "add_cross_attention",
        "gradient_checkpointing",
        "attn_implementation"});
}

ConfigReader ConfigReader::below(const std::string& key) const {
  ConfigReader reader;
  reader.json_ = std::make_shared<nlohmann::json>(value(key).is_object() ? value(key) : nlohmann::json::object());
  reader.origin_ = origin_, reader.family_ = family_, reader.strict_ = strict_, reader.problems_ = problems_;
  reader.prefix_ = prefix_ + key + ".";
  if (!value(key).is_object())
    reader.problem(fmt::format("{}{} must be an object; is {}", prefix_, key, value(key).dump()));
  return reader;
}

void ConfigReader::wrong(const std::string& key, const std::string& wanted) {
  constexpr size_t kShown = 80;
  std::string given = json_->contains(key) ? value(key).dump() : "absent";
  if (given.size() > kShown) given = given.substr(0, kShown) + "…";
  problem(fmt::format("{}{} must be {}; is {}", prefix_, key, wanted, given));
}

void ConfigReader::refuse_unknown() {
  if (!strict_) return;
  for (const auto& [key, value] : json_->items())
    if (known_.count(key) == 0)
      problem(fmt::format("{}{} is not a key of {}'s config{}", prefix_, key, family_, hint(key)));
}

void ConfigReader::finish() {
  refuse_unknown();
  if (problems_->empty()) return;
  const auto message = fmt::format("{}:\n  {}", origin_, fmt::join(*problems_, "\n  "));
  if (strict_) throw ConfigError(message);
  throw InputError(message);
}

nlohmann::json tokens_json(const std::vector<int64_t>& ids) {
  if (ids.empty()) return nullptr;
  return ids.size() == 1 ? nlohmann::json(ids[0]) : nlohmann::json(ids);
}

std::string ConfigReader::hint(const std::string& key) const {
  std::string nearest;
  size_t best = 4;
  for (const auto& known : known_)
    if (const auto distance = edit_distance(key, known); distance < best) best = distance, nearest = known;
  return nearest.empty() ? "" : fmt::format("; did you mean '{}'?", nearest);
}

}  // namespace trainer::nn
