#include "engine/config/plan/tree.h"

#include "engine/config/plan/reader.h"
#include "engine/config/tables.h"

namespace trainer::config {
namespace {

using Comment = std::function<std::string(const std::string&)>;

Node node_of(const Entries& entries, const void* section, const Comment& comment, const std::string& prefix) {
  Node map = Node::map();
  for (const Entry& entry : entries) {
    if (entry.foreign != Foreign::kNot) continue;
    const std::string path = prefix + entry.name;
    if (!entry.children) {
      Node& value = map[entry.name] = entry.write(section);
      if (comment) value.comment = comment(path);
    } else if (const void* child = entry.find(section)) {
      Node inner = node_of(*entry.children, child, comment, path + ".");
      if (!inner.members.empty()) map[entry.name] = std::move(inner);  // sections of foreign keys have none
    }
  }
  return map;
}

}  // namespace

Node to_node(const Config& config, const Comment& comment) {
  return node_of(root_table(), &config, comment, "");
}

std::vector<std::pair<std::string, std::string>> values_without_paths(const Config& config) {
  std::vector<std::pair<std::string, std::string>> values;
  walk(root_table(), &config, [&](const std::string& path, const Entry& entry, const void* section) {
    if (entry.foreign != Foreign::kNot) return false;
    if (entry.children || entry.path) return true;
    const Node node = entry.write(section);
    values.emplace_back(path, node.is_scalar() ? node.text : to_yaml(node));
    return true;
  });
  return values;
}

}  // namespace trainer::config
