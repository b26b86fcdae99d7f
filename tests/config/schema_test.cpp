// Checks files against the JSON schema with a validator for the keywords that the schema uses.
#include <regex>

#include <nlohmann/json.hpp>

#include "engine/config/pages/json_schema.h"
#include "engine/config/plan/files.h"
#include "engine/config/tables.h"
#include "tests/config/given.h"
#include "tests/support/source_dir.h"

namespace trainer::config {
namespace {

using Json = nlohmann::json;

/// How an editor's YAML library types bare scalars.
enum class Dialect { kYaml11, kYaml12 };

Json typed(const Node& node, Dialect dialect) {
  if (node.is_null()) return nullptr;
  if (node.is_list()) {
    Json list = Json::array();
    for (const Node& item : node.items) list.push_back(typed(item, dialect));
    return list;
  }
  if (node.is_map()) {
    Json map = Json::object();
    for (const Member& member : node.members) map[member.key] = typed(member.value, dialect);
    return map;
  }
  const std::string& text = node.text;
  if (node.quoted) return text;
  const std::string word = lower(text);
  if (word == "true" || word == "false") return word == "true";
  if (dialect == Dialect::kYaml11 && (word == "yes" || word == "on")) return true;
  if (dialect == Dialect::kYaml11 && (word == "no" || word == "off")) return false;
  static const std::regex integer("[-+]?[0-9]+"), core("[-+]?([.][0-9]+|[0-9]+([.][0-9]*)?)([eE][-+]?[0-9]+)?"),
      older("[-+]?[0-9]+[.][0-9]*([eE][-+][0-9]+)?");
  if (std::regex_match(text, integer)) return std::stoll(text);
  if (std::regex_match(text, dialect == Dialect::kYaml11 ? older : core)) return std::stod(text);
  return text;
}

class Schema {
 public:
  Schema() : root_(Json::parse(json_schema())) {}

  const Json& root() const { return root_; }

  /// "" or the first violation.
  std::string wrong(const Json& value) const { return wrong(value, root_, ""); }

 private:
  static bool is(const Json& value, const std::string& type) {
    if (type == "integer") return value.is_number() && value.get<double>() == std::trunc(value.get<double>());
    if (type == "number") return value.is_number();
    return type == value.type_name();
  }

  std::string wrong(const Json& value, const Json& schema, const std::string& path) const {
    if (schema.contains("$ref"))
      return wrong(value, root_.at(Json::json_pointer(schema["$ref"].get<std::string>().substr(1))), path);
    if (schema.contains("type")) {
      const Json& type = schema["type"];
      const Json types = type.is_array() ? type : Json::array({type});
      if (std::none_of(types.begin(), types.end(), [&](const Json& t) { return is(value, t); })) return path + ": type";
    }
    if (schema.contains("enum") && std::count(schema["enum"].begin(), schema["enum"].end(), value) == 0)
      return path + ": enum";
    if (schema.contains("pattern") && value.is_string() &&
        !std::regex_search(value.get<std::string>(), std::regex(schema["pattern"].get<std::string>())))
      return path + ": pattern";
    if (value.is_number()) {
      const double x = value.get<double>();
      if (schema.contains("minimum") && x < schema["minimum"]) return path + ": minimum";
      if (schema.contains("maximum") && x > schema["maximum"]) return path + ": maximum";
      if (schema.contains("exclusiveMinimum") && x <= schema["exclusiveMinimum"]) return path + ": exclusiveMinimum";
      if (schema.contains("exclusiveMaximum") && x >= schema["exclusiveMaximum"]) return path + ": exclusiveMaximum";
    }
    if (schema.contains("anyOf")) {
      const Json& any = schema["anyOf"];
      if (std::none_of(any.begin(), any.end(), [&](const Json& s) { return wrong(value, s, path).empty(); }))
        return path + ": none fits " + value.dump();
    }
    if (schema.contains("items") && value.is_array()) {
      for (const Json& item : value) {
        if (auto why = wrong(item, schema["items"], path + "[]"); !why.empty()) return why;
      }
    }
    if (schema.contains("properties") && value.is_object()) {
      for (const auto& [key, inner] : value.items()) {
        const std::string place = path + "/" + key;
        if (!schema["properties"].contains(key)) return place + ": unknown";
        if (auto why = wrong(inner, schema["properties"][key], place); !why.empty()) return why;
      }
    }
    return "";
  }

  Json root_;
};

std::string wrong_in(const Schema& schema, const std::string& text, Dialect dialect) {
  Problems problems;
  return schema.wrong(typed(parse_yaml(text, "text", problems), dialect));
}

TEST(JsonSchema, AcceptsShippedFilesAndFilesOfAccelerate) {
  const Schema schema;
  int files = 0;
  for (const char* folder : {"/configs", "/tests/config/accelerate"}) {
    for (const auto& entry : std::filesystem::directory_iterator(source_dir() + folder)) {
      if (entry.path().extension() != ".yaml") continue;
      Problems problems;
      const Node document = read_document(entry.path(), problems);
      for (const Dialect dialect : {Dialect::kYaml11, Dialect::kYaml12}) {
        EXPECT_EQ(schema.wrong(typed(document, dialect)), "") << entry.path();
      }
      ++files;
    }
  }
  EXPECT_GT(files, 90);
}

TEST(JsonSchema, AcceptsWhatTheReaderAccepts) {
  const Schema schema;
  for (const char* text : {"distributed_type: NO",
                           "distributed_type: fsdp",
                           "mixed_precision: no",
                           "mixed_precision: BF16",
                           "use_cpu: Yes",
                           "use_cpu: 1",
                           "use_cpu: 'off'",
                           "debug: f",
                           "gpu_ids: 0,1",
                           "gpu_ids: 0",
                           "num_processes: '2'",
                           "fsdp_config: {fsdp_min_num_params: 1e8, sharding_strategy: 1, fsdp_backward_prefetch: '2'}",
                           "training: {learning_rate: 1e-4, warmup_steps: \"${STEPS:-3}\"}",
                           "training: {learning_rate: 5.0e-05}",
                           "logging: {report_to: none}",
                           "logging: {report_to: [tensorboard]}",
                           "lora: {init_lora_weights: yes}",
                           "lora:",
                           "lora: {target_modules: all-linear}",
                           "lora: {target_modules: [q, v]}",
                           "main_process_ip: null",
                           "deepspeed_config: {gradient_clipping: auto}",
                           "model: {config: {model_type: t5, layers: [1, x]}}",
                           "checkpoint: {resume_from_checkpoint: some/folder}",
                           "checkpoint: {resume_from_checkpoint: false}"}) {
    for (const Dialect dialect : {Dialect::kYaml11, Dialect::kYaml12})
      EXPECT_EQ(wrong_in(schema, text, dialect), "") << text;
  }
}

TEST(JsonSchema, RefusesWhatTheReaderRefuses) {
  const Schema schema;
  for (const char* text :
       {"sed: 1", "training: {learning_rat: 1}", "training: 3", "seed: x", "seed: 1.5", "seed: -1", "num_processes: 0",
        "num_processes: 5000", "use_cpu: maybe", "mixed_precision: bf17", "lora: {lora_dropout: 1}",
        "lora: {lora_alpha: 0}", "logging: {report_to: [x]}", "fsdp_config: {fsdp_sharding_strategy: 7}",
        "fsdp_config: {fsdp_version: 3}", "model: {config: t5}", "data: {train: {columns: {a: b}}}",
        "data: {train: {encoding: utf-7}}"}) {
    for (const Dialect dialect : {Dialect::kYaml11, Dialect::kYaml12})
      EXPECT_NE(wrong_in(schema, text, dialect), "") << text;
  }
}

TEST(JsonSchema, KnowsEveryKeyWithItsLimitsAndOtherNames) {
  const Schema schema;
  each_entry(root_table(), [&](const std::string& path, const Entry& entry) {
    std::string pointer;
    for (std::size_t start = 0; start <= path.size();) {
      const std::size_t end = std::min(path.find('.', start), path.size());
      pointer += "/properties/" + path.substr(start, end - start);
      start = end + 1;
    }
    const Json::json_pointer place(pointer);
    ASSERT_TRUE(schema.root().contains(place)) << path;
    const std::string text = schema.root().at(place).dump();
    EXPECT_NE(text.find("description"), std::string::npos) << path;
    for (const Bound& bound : entry.bounds) {
      constexpr const char* kKeywords[] = {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"};
      const Json& number = schema.root().at(place).at("anyOf").at(0);
      EXPECT_EQ(number.at(kKeywords[static_cast<int>(bound.op)]), bound.value) << path << " " << to_string(bound);
    }
    for (const std::string& alias : entry.aliases) {
      EXPECT_EQ(schema.root().at(place.parent_pointer()).at(alias).at("$ref"), "#" + pointer);
    }
  });
}

}  // namespace
}  // namespace trainer::config
