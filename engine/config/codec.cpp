#include "engine/config/codec.h"

namespace trainer::config {
namespace {

std::string must_be(const char* what, const Node& node) {
  return fmt::format("must be {}; is {}", what, described(node));
}

}  // namespace

const OtherDevices* other_devices(const std::string& text) {
  for (const OtherDevices& other : kOtherDevices)
    if (lower(text) == lower(std::string(other.name))) return &other;
  return nullptr;
}

std::string described(const Node& node) {
  switch (node.kind) {
    case Node::Kind::kNull:
      return "empty";
    case Node::Kind::kList:
      return "a list";
    case Node::Kind::kMap:
      return "a group of keys";
    case Node::Kind::kScalar:
      break;
  }
  return "'" + shown(node.text) + "'";
}

std::string decode(const Node& node, bool& value) {
  const auto parsed = node.is_scalar() ? parse_bool(node.text) : std::nullopt;
  if (!parsed) return must_be("true or false", node);
  value = *parsed;
  return "";
}

std::string decode(const Node& node, int64_t& value) {
  const auto parsed = node.is_scalar() ? parse_int(node.text) : std::nullopt;
  if (!parsed) return must_be("an integer", node);
  value = *parsed;
  return "";
}

std::string decode(const Node& node, double& value) {
  const auto parsed = node.is_scalar() ? parse_double(node.text) : std::nullopt;
  if (!parsed) return must_be("a number", node);
  value = *parsed;
  return "";
}

std::string decode(const Node& node, std::string& value) {
  if (!node.is_scalar()) return must_be("text", node);
  value = node.text;
  return "";
}

std::string decode(const Node& node, std::vector<std::string>& value) {
  if (node.is_scalar()) {
    value = {node.text};
    return "";
  }
  if (!node.is_list()) return must_be("a list of texts", node);
  std::vector<std::string> texts;
  for (const Node& item : node.items) {
    if (!item.is_scalar()) return fmt::format("must be a list of texts; one of its items is {}", described(item));
    texts.push_back(item.text);
  }
  value = std::move(texts);
  return "";
}

std::string decode(const Node& node, NamesOrPattern& value) {
  NamesOrPattern parsed;
  std::string why = node.is_scalar() ? decode(node, parsed.pattern) : decode(node, parsed.names);
  if (why.empty()) value = std::move(parsed);
  return why;
}

Node encode(bool value) {
  return Node::scalar(value ? "true" : "false");
}
Node encode(int64_t value) {
  return Node::scalar(std::to_string(value));
}
Node encode(double value) {
  std::string text = double_text(value);
  if (text.ends_with(".0")) text.resize(text.size() - 2);  // a number either way
  return Node::scalar(text);
}
Node encode(const std::string& value) {
  return Node::scalar(value, true);
}
Node encode(const std::vector<std::string>& value) {
  return Node::list(value);
}
Node encode(const NamesOrPattern& value) {
  return value.pattern.empty() ? encode(value.names) : encode(value.pattern);
}

}  // namespace trainer::config
