#include "engine/config/reference.h"

#include "engine/config/tables.h"

namespace trainer::config {
namespace {

std::string cell(const std::string& text) {
  std::string out;
  for (const char c : text) out += c == '|' ? "\\|" : std::string(1, c);
  return out;
}

std::string default_text(const Entry& entry) {
  if (!entry.write) return "";
  const Node& node = entry.initial;
  if (node.is_list()) {
    std::string items;
    for (const Node& item : node.items) items += (items.empty() ? "" : ", ") + item.text;
    return "`[" + items + "]`";
  }
  return node.is_null() || node.text.empty() ? "" : "`" + node.text + "`";
}

std::string path_words(const Entry& entry) {
  if (!entry.keywords.empty()) return entry.kind.words;
  return entry.initial.is_list() ? "a path, or a list of them" : "a path";
}

std::string row(const Entry& entry) {
  std::string help = entry.help;
  if (!entry.condition.empty()) help += fmt::format(" Only when {}.", entry.condition);
  if (!entry.no_effect.empty()) help += fmt::format(" No effect: {}.", entry.no_effect);
  if (entry.unsupported) help += fmt::format(" This version can do {}.", fmt::join(entry.kind.choices, ", "));
  const std::string words = entry.foreign != Foreign::kNot ? "" : entry.path ? path_words(entry) : entry.kind.words;
  return fmt::format("| `{}` | {} | {} | {} |\n", entry.name, cell(words), cell(default_text(entry)), cell(help));
}

void add_section(const Entries& entries, const std::string& title, const std::string& help, std::string& page) {
  page += fmt::format("\n## {}\n\n{}\n\n| key | value | default | |\n|---|---|---|---|\n", title, help);
  std::string unsupported;
  for (const Entry& entry : entries) {
    const bool listed = entry.foreign == Foreign::kNot || entry.foreign == Foreign::kTranslated;
    if (listed && !entry.children) page += row(entry);
    if (!listed) unsupported += fmt::format("{}`{}`", unsupported.empty() ? "" : ", ", entry.name);
  }
  if (!unsupported.empty()) {
    page += fmt::format("\nAccepted where they ask for nothing, and without effect: {}.\n", unsupported);
  }
}

void add_sections(const Entries& entries, const std::string& prefix, std::string& page) {
  for (const Entry& entry : entries) {
    if (!entry.children) continue;
    std::string help = entry.help;
    if (!entry.condition.empty()) help += fmt::format(" Only when {}.", entry.condition);
    add_section(*entry.children, "`" + prefix + entry.name + "`", help, page);
    add_sections(*entry.children, prefix + entry.name + ".", page);
  }
}

}  // namespace

std::string reference_page() {
  std::string page =
      "# Every option of the configuration file\n\n"
      "Made by `trainer config reference`; don't edit. Keys at the top are Accelerate's, then ours; an option can also "
      "be "
      "set by `--set section.key=value`.\n`${VAR}` and `${VAR:-default}` are replaced from the environment. Relative "
      "paths "
      "are relative to the file they stand in.\n";
  add_section(root_table(), "Top of the file", "Accelerate's keys, and two of ours.", page);
  add_sections(root_table(), "", page);
  return page;
}

}  // namespace trainer::config
