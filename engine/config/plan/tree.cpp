#include "engine/config/plan/tree.h"

#include "engine/config/plan/reader.h"
#include "engine/config/tables.h"

namespace trainer::config {
namespace {

using Comment = std::function<std::string(const std::string&)>;

bool has_effect(const Entry& entry, const Config& config) {
  return entry.no_effect.empty() && (!entry.applies || entry.applies(config)) &&
         !(entry.is_idle && entry.is_idle(config));
}

/// Gives options without effect their defaults. Returns whether one has changed: others may depend on it.
bool reset_idle(const Entries& entries, void* section, bool idle, const Config& config) {
  bool changed = false;
  for (const Entry& entry : entries) {
    if (entry.foreign != Foreign::kNot) continue;
    const bool resets = idle || !has_effect(entry, config);
    if (entry.children) {
      if (void* const child = const_cast<void*>(entry.find(section)))
        changed = reset_idle(*entry.children, child, resets, config) || changed;
    } else if (resets && !same(entry.write(section), entry.initial)) {
      changed = entry.read(entry.initial, section).empty() || changed;
    }
  }
  return changed;
}

using Wanted = std::function<bool(const Entry&, const void* section)>;

Node node_of(const Entries& entries, const void* section, const Wanted& wanted, const Comment& comment,
             const std::string& prefix) {
  Node map = Node::map();
  for (const Entry& entry : entries) {
    if (entry.foreign != Foreign::kNot || !wanted(entry, section)) continue;
    const std::string path = prefix + entry.name;
    if (!entry.children) {
      Node& value = map[entry.name] = entry.write(section);
      if (comment) value.comment = comment(path);
    } else if (const void* child = entry.find(section)) {
      Node inner = node_of(*entry.children, child, wanted, comment, path + ".");
      if (!inner.members.empty()) map[entry.name] = std::move(inner);  // sections of foreign keys have none
    }
  }
  return map;
}

}  // namespace

Node to_node(const Config& config, Options options, const Comment& comment) {
  if (options == Options::kAll)
    return node_of(
        root_table(), &config, [](const Entry&, const void*) { return true; }, comment, "");
  Config effective = config;
  while (reset_idle(root_table(), &effective, false, effective)) continue;
  const auto wanted = [&](const Entry& entry, const void* section) {
    return has_effect(entry, effective) && !(entry.omitted && same(entry.write(section), entry.initial));
  };
  return node_of(root_table(), &effective, wanted, comment, "");
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
