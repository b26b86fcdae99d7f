#include "engine/config/document/json_text.h"

#include <nlohmann/json.hpp>

#include "engine/base/bounded_json.h"
#include "engine/base/errors.h"
#include "engine/config/document/scalar.h"

namespace trainer::config {
namespace {

using Json = nlohmann::ordered_json;

Json json_of(const Node& node) {
  switch (node.kind) {
    case Node::Kind::kNull:
      return nullptr;
    case Node::Kind::kList: {
      Json list = Json::array();
      for (const Node& item : node.items) list.push_back(json_of(item));
      return list;
    }
    case Node::Kind::kMap: {
      Json map = Json::object();
      for (const Member& member : node.members) map[member.key] = json_of(member.value);
      return map;
    }
    case Node::Kind::kScalar:
      break;
  }
  if (node.quoted) return node.text;
  if (node.text.size() > 1) {  // YAML's words; here the single letters and digits of parse_bool are text
    if (auto truth = parse_bool(node.text)) return *truth;
  }
  const bool fraction = node.text.find('.') != std::string::npos;  // 1.0 stays a fraction
  if (!fraction) {
    if (auto integer = parse_int(node.text)) return *integer;
  }
  if (auto number = parse_double(node.text)) return *number;
  return node.text;
}

Node node_of(const Json& json) {
  if (json.is_null()) return Node();
  if (json.is_string()) return Node::scalar(json.get<std::string>(), true);
  if (json.is_number_float()) return Node::scalar(double_text(json.get<double>()));
  if (json.is_primitive()) return Node::scalar(json.dump());
  Node node;
  node.kind = json.is_array() ? Node::Kind::kList : Node::Kind::kMap;
  for (const auto& [key, value] : json.items()) {
    if (json.is_array()) {
      node.items.push_back(node_of(value));
    } else {
      node.members.push_back({key, node_of(value), Mark()});
    }
  }
  return node;
}

}  // namespace

std::string to_json(const Node& node) {
  return json_of(node).dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string sorted_json(const Node& node) {
  return nlohmann::json(json_of(node)).dump(2, ' ', /*ensure_ascii=*/true) + "\n";
}

Node from_json(const std::string& text) {
  try {
    return node_of(bounded_json<Json>(text));
  } catch (const Json::exception& error) {
    throw ConfigError("not JSON: {}", error.what());
  }
}

}  // namespace trainer::config
