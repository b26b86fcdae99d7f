#include "engine/config/document/document.h"

#include <algorithm>

#include <fmt/format.h>

#include "engine/config/document/problems.h"

namespace trainer::config {

std::string to_string(const Mark& mark) {
  if (!mark.source) return "default";
  return mark.line > 0 ? fmt::format("{}:{}:{}", *mark.source, mark.line, mark.column) : *mark.source;
}

Layer layer_of(const Mark& mark) {
  if (!mark.source) return Layer::kDefault;
  if (mark.line > 0) return Layer::kFile;
  return mark.source->starts_with(kEnvironmentSource) ? Layer::kEnvironment : Layer::kFlag;
}

Node Node::null(std::string text) {
  Node node;
  node.text = std::move(text);
  return node;
}

Node Node::scalar(std::string text, bool quoted) {
  Node node;
  node.kind = Kind::kScalar;
  node.text = std::move(text);
  node.quoted = quoted;
  return node;
}

Node Node::list(const std::vector<std::string>& texts) {
  Node node;
  node.kind = Kind::kList;
  for (const std::string& text : texts) node.items.push_back(scalar(text, true));
  return node;
}

Node Node::map() {
  Node node;
  node.kind = Kind::kMap;
  return node;
}

const Node* Node::find(const std::string& key) const {
  for (const Member& member : members) {
    if (member.key == key) return &member.value;
  }
  return nullptr;
}

Node& Node::operator[](const std::string& key) {
  for (Member& member : members) {
    if (member.key == key) return member.value;
  }
  return members.emplace_back(Member{key, Node(), Mark()}).value;
}

void Node::erase(const std::string& key) {
  std::erase_if(members, [&](const Member& member) { return member.key == key; });
}

std::string text_of(const Node& node) {
  if (node.is_null()) return "null";
  if (node.is_scalar()) return node.text;
  std::string out;
  for (const Node& item : node.items) out += (out.empty() ? "" : ", ") + text_of(item);
  for (const Member& member : node.members) {
    out += (out.empty() ? "" : ", ") + member.key + ": " + text_of(member.value);
  }
  return node.is_map() ? "{" + out + "}" : "[" + out + "]";
}

bool same(const Node& a, const Node& b) {
  if (a.kind != b.kind || (a.is_scalar() && a.text != b.text)) return false;
  if (!std::equal(a.items.begin(), a.items.end(), b.items.begin(), b.items.end(), same)) return false;
  return std::equal(a.members.begin(), a.members.end(), b.members.begin(), b.members.end(),
                    [](const Member& x, const Member& y) { return x.key == y.key && same(x.value, y.value); });
}

void report_twice(const std::vector<Member>& members, const std::string& key, const Node& value, const Mark& mark,
                  Problems& problems) {
  const Member& first = *std::find_if(members.begin(), members.end(), [&](const Member& m) { return m.key == key; });
  const std::string twice = fmt::format("'{}' is given twice", shown(key));
  if (same(first.value, value))
    problems.warn(mark,
                  fmt::format("{}, with the same value on line {}: one of them is enough", twice, first.mark.line));
  else
    problems.add(mark, "",
                 fmt::format("{}, with another value on line {}: leave one of them out", twice, first.mark.line));
}

}  // namespace trainer::config
