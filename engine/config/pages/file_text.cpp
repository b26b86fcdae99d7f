#include "engine/config/pages/file_text.h"

#include <algorithm>
#include <string_view>

#include "engine/base/errors.h"
#include "engine/config/document/json_text.h"
#include "engine/config/document/scalar.h"
#include "engine/config/document/text.h"
#include "engine/config/tables.h"

namespace trainer::config {
namespace {

const Entry* find_entry(const Entries& entries, const std::string& key) {
  auto found = std::find_if(entries.begin(), entries.end(), [&](const Entry& entry) { return entry.has_key(key); });
  return found == entries.end() ? nullptr : &*found;
}

bool says_nothing(const Node& node) {
  return node.is_null() || (node.is_map() && node.members.empty());
}

/// Accelerate's part: `mixed_precision: no` must be quoted, or PyYAML reads a boolean.
Node accelerate_part(const Entries& entries, const Node& map) {
  Node out = Node::map();
  for (Member member : map.members) {
    const Entry* entry = find_entry(entries, member.key);
    Node& value = member.value;
    if (value.is_map() && entry && entry->children) value = accelerate_part(*entry->children, value);
    const bool names = entry && (entry->kind.type == Type::kText || entry->kind.type == Type::kTexts);
    const bool truth = value.is_scalar() && parse_bool(value.text) && !parse_int(value.text);
    const bool is_name = lower(value.text) == "no" || lower(value.text) == "n";
    if (names && truth && is_name && entry->foreign == Foreign::kNot) value.quoted = true;
    if (!says_nothing(value)) out.members.push_back(std::move(member));
  }
  std::sort(out.members.begin(), out.members.end(), [](const Member& a, const Member& b) { return a.key < b.key; });
  return out;
}

bool is_empty(const Node& node) {
  return says_nothing(node) || (node.is_scalar() && node.text.empty()) || (node.is_list() && node.items.empty());
}

/// Our part: in the order of the tables, without empty values.
Node our_part(const Entries& entries, const Node& map) {
  Node out = Node::map();
  for (const Entry& entry : entries) {
    for (const Member& member : map.members) {
      if (!entry.has_key(member.key) || entry.accelerate) continue;
      const bool section = entry.children && member.value.is_map();
      const Node value = section ? our_part(*entry.children, member.value) : member.value;
      const bool asked_for = entry.clear && member.value.is_map();  // `lora: {}` requests adapters
      if (!is_empty(value) || asked_for) out.members.push_back({member.key, value, member.mark});
    }
  }
  return out;
}

/// Removes the first line from `text` and returns it without trailing blanks.
std::string_view take_line(std::string_view& text) {
  std::string_view line = text.substr(0, text.find('\n'));
  text.remove_prefix(std::min(text.size(), line.size() + 1));
  return line.substr(0, line.find_last_not_of(" \t\r") + 1);
}

constexpr std::string_view kBy = "# By `trainer ", kHasLastLine = ". A last line says that the file is whole.";

}  // namespace

std::string first_comment(const std::string& by) {
  return fmt::format("# By {}{}", by, kHasLastLine);
}

bool is_first_comment(std::string_view line) {
  return line.starts_with(kBy) && line.ends_with(kHasLastLine);
}

void refuse_cut(const std::string& text, const std::string& file) {
  std::string_view rest = text;
  if (!is_first_comment(take_line(rest))) return;
  while (!rest.empty())
    if (take_line(rest) == kLastComment) return;
  throw ConfigError(
      "{}: the file is truncated: according to its first line it must contain the line '{}', which is missing\n  copy "
      "or write it again (or remove the first line, if the file is complete)",
      to_string(Places(text, file).at(text.size())), kLastComment);
}

FileFormat format_of(const std::string& file) {
  return file.ends_with(".json") ? FileFormat::kJson : FileFormat::kYaml;
}

std::string file_text(const Node& document, FileFormat format, const std::string& by) {
  Node theirs = Node::map();
  for (const Member& member : document.members) {
    const Entry* entry = find_entry(root_table(), member.key);
    if (entry && entry->accelerate) theirs.members.push_back(member);
  }
  Node accelerate = accelerate_part(root_table(), theirs);
  const Node ours = our_part(root_table(), document);
  if (format == FileFormat::kJson) {
    accelerate.members.insert(accelerate.members.end(), ours.members.begin(), ours.members.end());
    return sorted_json(accelerate);
  }
  const std::string text = to_yaml(accelerate);
  if (ours.members.empty()) return text;
  return fmt::format("{}\n{}{}\n{}{}\n", first_comment(by), text, kSectionsComment, to_yaml(ours), kLastComment);
}

}  // namespace trainer::config
