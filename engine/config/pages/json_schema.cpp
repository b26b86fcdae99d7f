#include "engine/config/pages/json_schema.h"

#include <algorithm>
#include <cctype>

#include <nlohmann/json.hpp>

#include "engine/base/bounded_json.h"
#include "engine/config/document/json_text.h"
#include "engine/config/tables.h"

namespace trainer::config {
namespace {

using Json = nlohmann::ordered_json;

/// A pattern that matches any of `words` in any case.
std::string any_case(const std::vector<std::string>& words) {
  std::string pattern;
  for (const std::string& word : words) {
    pattern += pattern.empty() ? "^(" : "|";
    for (const char c : word) {
      const auto byte = static_cast<unsigned char>(c);
      const char upper = static_cast<char>(std::toupper(byte)), small = static_cast<char>(std::tolower(byte));
      pattern += std::isalpha(byte) ? fmt::format("[{}{}]", upper, small) : std::string(1, c);
    }
  }
  return pattern + ")$";
}

Json reference(const std::string& definition) {
  return {{"$ref", "#/definitions/" + definition}};
}

Json definitions() {
  auto text = [](const std::string& pattern) { return Json{{"type", "string"}, {"pattern", pattern}}; };
  const std::vector<std::string> truths{"y", "yes", "t", "true", "on", "1", "n", "no", "f", "false", "off", "0"};
  return {{"truth", {{"anyOf", {{{"type", "boolean"}}, {{"enum", {0, 1}}}, text(any_case(truths))}}}},
          {"integer_text", text("^[-+]?[0-9][0-9_]*(\\.[0-9]*)?([eE][-+]?[0-9]+)?$")},
          {"number_text", text("^[-+]?(\\.[0-9]|[0-9])[0-9_]*(\\.[0-9]*)?([eE][-+]?[0-9]+)?$")},
          {"range", text("^[0-9]+:[0-9]+$")},
          {"text", {{"type", {"string", "number", "boolean"}}}},
          {"variable", text("\\$\\{")}};
}

const char* keyword(Bound::Operator op) {
  switch (op) {
    case Bound::Operator::kAtLeast:
      return "minimum";
    case Bound::Operator::kAtMost:
      return "maximum";
    case Bound::Operator::kAbove:
      return "exclusiveMinimum";
    case Bound::Operator::kBelow:
      return "exclusiveMaximum";
  }
  return "";
}

void add_bounds(const Entry& entry, Json& number) {
  for (const auto& [op, value] : entry.bounds) {
    const auto whole = static_cast<int64_t>(value);
    number[keyword(op)] = static_cast<double>(whole) == value ? Json(whole) : Json(value);
  }
}

/// The words of `kind`, as text and as the types that YAML may give them.
void add_words(const Kind& kind, Json& any) {
  if (!kind.choices.empty()) any.push_back({{"enum", kind.choices}});  // what editors offer
  if (kind.known.empty()) return;
  any.push_back({{"type", "string"}, {"pattern", any_case(kind.known)}});
  Json others = Json::array();
  bool yes = false, no = false;
  for (const std::string& word : kind.known) {
    if (const auto number = parse_int(word)) others.push_back(*number);
    yes = yes || parse_bool(word) == true;
    no = no || parse_bool(word) == false;
  }
  if (yes && no) {
    any.push_back(reference("truth"));
  } else if (yes || no) {
    any.push_back({{"type", "boolean"}});
  }
  if (!others.empty()) any.push_back({{"enum", others}});
}

/// The schema of one value of the option.
Json values(const Entry& entry) {
  Json any = Json::array();
  const Kind& kind = entry.kind;
  switch (kind.type) {
    case Type::kBoolean:
      any.push_back(reference("truth"));
      break;
    case Type::kInteger:
    case Type::kNumber: {
      const bool whole = kind.type == Type::kInteger;
      Json number{{"type", whole ? "integer" : "number"}};
      add_bounds(entry, number);
      any.push_back(number);
      any.push_back(reference(whole ? "integer_text" : "number_text"));
      add_words(kind, any);
      if (entry.name == "num_machines") any.push_back(reference("range"));
      break;
    }
    case Type::kText:
    case Type::kTexts:
      kind.known.empty() ? any.push_back(reference("text")) : add_words(kind, any);
      break;
    case Type::kGroup:
      any.push_back({{"type", "object"}});
  }
  return any;
}

std::string description(const Entry& entry) {
  std::string text = entry.help;
  auto add = [&](const std::string& sentence) { text += (text.empty() ? "" : " ") + sentence; };
  if (!entry.condition.empty()) add(fmt::format("Only when {}.", entry.condition));
  const std::string& idle =
      entry.no_effect.empty() && entry.foreign == Foreign::kNoEffect ? entry.reason : entry.no_effect;
  if (!idle.empty()) add(fmt::format("No effect here: {}.", idle));
  if (entry.foreign == Foreign::kUnsupported) add(fmt::format("Not supported: {}.", entry.reason));
  if (entry.unsupported) add(fmt::format("This version supports {}.", fmt::join(entry.kind.choices, ", ")));
  return text;
}

bool takes_anything(const Entry& entry) {
  return entry.foreign != Foreign::kNot && !entry.read;
}

/// True for a default that is not empty and that a file could contain.
bool has_default(const Entry& entry) {
  if (!entry.write || entry.initial.is_null() || (entry.initial.is_scalar() && entry.initial.text.empty()))
    return false;
  // 0 represents "not given" where it is out of bounds.
  return entry.initial.text != "0" ||
         std::all_of(entry.bounds.begin(), entry.bounds.end(), [](const Bound& bound) { return bound.holds(0); });
}

Json option_schema(const Entry& entry) {
  Json schema = Json::object();
  if (const std::string text = description(entry); !text.empty()) schema["description"] = text;
  if (takes_anything(entry)) return schema;
  if (has_default(entry)) schema["default"] = bounded_json<Json>(to_json(entry.initial));
  Json any = values(entry);
  any.push_back(reference("variable"));
  if (entry.kind.type == Type::kTexts) {
    const Json item{{"anyOf", any}};
    any.push_back({{"type", "array"}, {"items", item}});
  }
  any.push_back({{"type", "null"}});
  schema["anyOf"] = std::move(any);
  return schema;
}

/// `pointer` is the location of the properties in the whole schema.
Json properties(const Entries& entries, const std::string& pointer) {
  Json all = Json::object();
  for (const Entry& entry : entries) {
    const std::string place = pointer + "/" + entry.name;
    if (entry.children) {
      all[entry.name] = {{"description", description(entry)},
                         {"type", {"object", "null"}},
                         {"properties", properties(*entry.children, place + "/properties")},
                         {"additionalProperties", false}};
    } else {
      all[entry.name] = option_schema(entry);
    }
    for (const std::string& alias : entry.aliases) all[alias] = {{"$ref", place}};
  }
  return all;
}

}  // namespace

std::string json_schema() {
  Json schema{{"$schema", "http://json-schema.org/draft-07/schema#"},
              {"title", "trainer configuration"},
              {"description", "Accelerate's configuration file with the additional sections of trainer."},
              {"type", "object"},
              {"properties", properties(root_table(), "#/properties")},
              {"additionalProperties", false},
              {"definitions", definitions()}};
  return schema.dump(2) + "\n";
}

}  // namespace trainer::config
