// Writing a configuration file as Accelerate would, with our sections after its part.
#include <algorithm>

#include "engine/config/reader.h"
#include "engine/config/tables.h"
#include "engine/config/wizard.h"

namespace trainer::config {
namespace {

const Node* find_key(const Node& map, const Entry& entry) {
  for (const Member& member : map.members) {
    if (entry.has_key(member.key) && !member.value.is_null()) return &member.value;
  }
  return nullptr;
}

bool is_empty(const Node& node) {
  return node.is_null() || (node.is_scalar() && node.text.empty()) || (node.is_map() && node.members.empty());
}

void sort_keys(Node& map) {
  std::sort(map.members.begin(), map.members.end(), [](const Member& a, const Member& b) { return a.key < b.key; });
}

class Builder {
 public:
  explicit Builder(const Config& config) : config_(config) {}

  /// `before` may be null: the section is new.
  Node build(const Entries& entries, const void* section, const void* before, const Node& previous,
             bool accelerate) const {
    Node map = Node::map();
    for (const Entry& entry : entries) {
      const Node* old = find_key(previous, entry);
      const bool ours = !accelerate && !entry.accelerate;
      Node value;
      if (entry.foreign != Foreign::kNot) {
        value = old ? *old : entry.written.value_or(Node());
      } else if (entry.children) {
        value = build_section(entry, section, before, old, accelerate || entry.accelerate);
      } else {
        value = build_option(entry, section, before, old, ours);
      }
      const bool kept_list = value.is_list() && entry.foreign != Foreign::kNot;  // tpu_env: []
      if (!is_empty(value) && (!value.is_list() || !value.items.empty() || kept_list)) map[entry.name] = value;
    }
    return map;
  }

 private:
  Node build_section(const Entry& entry, const void* section, const void* before, const Node* old,
                     bool accelerate) const {
    const void* child = entry.find(section);
    const bool applies = !entry.applies || entry.applies(config_);
    if (!child || (!applies && !old)) return Node();
    const void* child_before = before ? entry.find(before) : nullptr;
    Node map = build(*entry.children, child, child_before, old ? *old : Node::map(), accelerate);
    if (entry.children == &fsdp_table()) finish_fsdp(map, old);
    return map;
  }

  Node build_option(const Entry& entry, const void* section, const void* before, const Node* old, bool ours) const {
    const Node value = entry.write(section);
    if (old && before && same(value, entry.write(before))) return *old;
    const bool applies = !entry.applies || entry.applies(config_);
    const bool is_default = same(value, entry.initial);
    if (ours || entry.omitted)
      return is_default && (entry.omitted || entry.question.empty() || !applies) ? Node() : value;
    return value;
  }

  /// Accelerate's wizard writes the strategy under another key: version 1 its name, version 2 a truth.
  void finish_fsdp(Node& map, const Node* old) const {
    const bool transformer = config_.fsdp_config.auto_wrap_policy == WrapPolicy::kTransformerBased;
    const bool size_based = config_.fsdp_config.auto_wrap_policy == WrapPolicy::kSizeBased;
    if (!size_based && !(old && old->find("fsdp_min_num_params"))) map.erase("fsdp_min_num_params");
    if (!transformer) map.erase("fsdp_transformer_layer_cls_to_wrap");
    const bool named = old && (old->find("fsdp_sharding_strategy") || old->find("sharding_strategy"));
    if (!named) {
      const ShardingStrategy strategy = config_.fsdp_config.sharding_strategy;
      map["fsdp_reshard_after_forward"] =
          config_.fsdp_config.version == 1 ? encode(strategy) : encode(strategy == ShardingStrategy::kFullShard);
      map.erase("fsdp_sharding_strategy");
    }
    sort_keys(map);
  }

  const Config& config_;
};

}  // namespace

std::string file_text(const Config& config, const Config& before, const Node& previous) {
  const Node all =
      Builder(config).build(root_table(), &config, &before, previous.is_map() ? previous : Node::map(), false);
  Node accelerate = Node::map();
  Node ours = Node::map();
  for (const Member& member : all.members) {
    auto entry =
        std::find_if(root_table().begin(), root_table().end(), [&](const Entry& e) { return e.name == member.key; });
    (entry->accelerate ? accelerate : ours).members.push_back(member);
  }
  sort_keys(accelerate);
  std::string text = to_yaml(accelerate);
  if (!ours.members.empty())
    text += "# What to train, and how. Accelerate itself does not know these sections.\n" + to_yaml(ours);
  return text;
}

}  // namespace trainer::config
