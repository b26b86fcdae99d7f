// Any bytes as JSON give the same values as another parser, each with the mark of its beginning, or a ConfigError.
#include <nlohmann/json.hpp>

#include "engine/base/errors.h"
#include "engine/config/document/json_text.h"
#include "engine/config/document/problems.h"
#include "engine/config/document/text.h"
#include "tests/fuzz/fuzz.h"

namespace trainer::config {
namespace {

std::size_t offset_of(const std::string& text, const Mark& mark) {
  std::size_t start = 0;
  for (int line = 1; line < mark.line; ++line) start = text.find('\n', start) + 1;
  return start + static_cast<std::size_t>(mark.column) - 1;
}

void check_marks(const std::string& text, const Node& node) {
  const std::string_view here = std::string_view(text).substr(offset_of(text, node.mark));
  if (node.is_null()) check(here.starts_with("null"), "the mark of a null");
  if (node.is_map()) check(here.starts_with("{"), "the mark of a map");
  if (node.is_list()) check(here.starts_with("["), "the mark of a list");
  if (node.is_scalar() && node.quoted) check(here.starts_with("\""), "the mark of a text");
  if (node.is_scalar() && !node.quoted) check(here.starts_with(node.text), "the mark of a number or truth");
  for (const Node& item : node.items) check_marks(text, item);
  for (const Member& member : node.members) {
    check(text[offset_of(text, member.mark)] == '"', "the mark of a key");
    check_marks(text, member.value);
  }
}

void check_values(const Node& node, const nlohmann::ordered_json& json) {
  if (node.is_null()) check(json.is_null(), "null");
  if (node.is_list()) {
    check(json.is_array() && json.size() == node.items.size(), "a list");
    for (std::size_t i = 0; i < json.size(); ++i) check_values(node.items[i], json[i]);
  }
  if (node.is_map()) {
    check(json.is_object() && json.size() == node.members.size(), "a map");
    for (const Member& member : node.members) check_values(member.value, json.at(member.key));
  }
  if (!node.is_scalar()) return;
  if (node.quoted) {
    check(json.is_string() && json.get<std::string>() == node.text, "a text");
  } else {
    check(json == nlohmann::ordered_json::parse(node.text), "a number or truth");
  }
}

void fuzz(const std::string& text) {
  Problems problems;
  Node root;
  try {
    root = parse_json(text, "f.json", problems);
  } catch (const ConfigError&) {
    return;
  }
  const std::string body = utf8_text(text, "f.json");
  check_marks(body, root);
  check(nlohmann::json::accept(body), "invalid JSON is rejected");
  if (problems.empty()) check_values(root, nlohmann::ordered_json::parse(body));
  to_json(root);
}

}  // namespace
}  // namespace trainer::config

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  trainer::config::fuzz(std::string(reinterpret_cast<const char*>(data), size));
  return 0;
}
