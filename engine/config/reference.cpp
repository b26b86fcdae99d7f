#include "engine/config/reference.h"

#include <algorithm>

#include "engine/config/override.h"
#include "engine/config/rules.h"
#include "engine/config/tables.h"

namespace trainer::config {
namespace {

std::string cell(const std::string& text) {
  std::string out;
  for (const char c : text) out += c == '|' ? "\\|" : std::string(1, c);
  return out;
}

std::string code(const std::string& text) {
  return "`" + text + "`";
}

std::string codes(const std::vector<std::string>& texts) {
  std::string out;
  for (const std::string& text : texts) out += (out.empty() ? "" : ", ") + code(text);
  return out;
}

std::string default_text(const Entry& entry) {
  if (!entry.write) return "";
  const Node& node = entry.initial;
  if (node.is_list()) {
    std::string items;
    for (const Node& item : node.items) items += (items.empty() ? "" : ", ") + item.text;
    return code("[" + items + "]");
  }
  return node.is_null() || node.text.empty() ? "" : code(node.text);
}

std::string value_words(const Entry& entry) {
  std::string words = entry.kind.words;
  if (entry.path && entry.keywords.empty()) words = entry.initial.is_list() ? "a path, or a list of them" : "a path";
  for (const std::string& limit : entry.limits) words += ", " + limit;
  return words;
}

std::string row(const Entry& entry, const std::string& path, bool all_have_flags) {
  std::string help = entry.help;
  if (!entry.condition.empty()) help += fmt::format(" Only when {}.", entry.condition);
  if (!entry.no_effect.empty()) help += fmt::format(" No effect here: {}.", entry.no_effect);
  if (entry.unsupported) help += fmt::format(" This version can do {}.", fmt::join(entry.kind.choices, ", "));
  if (!entry.aliases.empty()) help += fmt::format(" Also read as {}.", codes(entry.aliases));
  const std::string flag = launch_flag(path, entry);
  if (!flag.empty() && !(all_have_flags && flag == "--" + entry.name)) help += fmt::format(" Flag {}.", code(flag));
  if (!entry.variable.empty()) help += fmt::format(" Environment {}.", code(entry.variable));
  return fmt::format("| {} | {} | {} | {} |\n", code(entry.name), cell(value_words(entry)), cell(default_text(entry)),
                     cell(help));
}

bool is_listed(const Entry& entry) {
  return !entry.children && (entry.foreign == Foreign::kNot || entry.foreign == Foreign::kTranslated);
}

/// Keys of other programs, those with the same reason in one row.
std::string foreign_rows(const Entries& entries, Foreign fate, const char* title) {
  std::vector<std::pair<std::string, std::vector<std::string>>> by_reason;
  for (const Entry& entry : entries) {
    if (entry.children || entry.foreign != fate) continue;
    auto same = std::find_if(by_reason.begin(), by_reason.end(), [&](auto& r) { return r.first == entry.reason; });
    if (same == by_reason.end()) same = by_reason.insert(by_reason.end(), {entry.reason, {}});
    same->second.push_back(entry.name);
  }
  std::string text;
  for (const auto& [reason, names] : by_reason) {
    if (text.empty()) text = fmt::format("\n| {} | because |\n|---|---|\n", title);
    text += fmt::format("| {} | {} |\n", codes(names), cell(reason));
  }
  return text;
}

void add_section(const Entries& entries, const std::string& prefix, const std::string& title, std::string help,
                 std::string& page) {
  const bool all_have_flags = std::all_of(entries.begin(), entries.end(), [&](const Entry& entry) {
    return !is_listed(entry) || !launch_flag(prefix + entry.name, entry).empty();
  });
  std::string rows;
  for (const Entry& entry : entries) {
    if (is_listed(entry)) rows += row(entry, prefix + entry.name, all_have_flags);
  }
  if (all_have_flags && !rows.empty()) help += " Each key is a flag of `trainer launch` too: `--key`.";
  page += fmt::format("\n## {}\n\n{}\n", title, help);
  if (!rows.empty()) page += "\n| key | value | default | |\n|---|---|---|---|\n" + rows;
  page += foreign_rows(entries, Foreign::kNoEffect, "without effect");
  page += foreign_rows(entries, Foreign::kUnsupported, "refused where it asks for something");
}

void add_sections(const Entries& entries, const std::string& prefix, std::string& page) {
  for (const Entry& entry : entries) {
    if (!entry.children) continue;
    std::string help = entry.help;
    if (!entry.condition.empty()) help += fmt::format(" Only when {}.", entry.condition);
    const std::string path = prefix + entry.name;
    add_section(*entry.children, path + ".", code(path), help, page);
    add_sections(*entry.children, path + ".", page);
  }
}

}  // namespace

std::string reference_page() {
  std::string page =
      "# Every option of the configuration file\n\n"
      "Made by `trainer config reference`; don't edit. `trainer explain OPTION` says the same about one of them, and "
      "`trainer config schema` prints a JSON schema for editors.\n\n"
      "- Keys at the top are Accelerate's, then ours. What a key is called elsewhere (*also read as*) may be written "
      "instead.\n"
      "- Any option can also be set by `--set section.key=value`. Later ones win: default, file, environment, flag.\n"
      "- `${VAR}` and `${VAR:-default}` are replaced from the environment. Relative paths are relative to the file "
      "they "
      "stand in.\n"
      "- Names are read in any case; true may be written `yes`, `on`, `y`, `t` or `1`, false `no`, `off`, `n`, `f` or "
      "`0`.\n"
      "- In our sections an integer is written in digits (`1000`, not `1e3`), numbers and truths stand without quotes, "
      "and a key has something behind it: `null` is the default. Accelerate's part is read as Accelerate reads it.\n"
      "- The first line of a file that `trainer config` wrote promises a last one: what was cut in between is refused, "
      "not read as a shorter file.\n"
      "- Unknown keys are errors at every level, but for those of DeepSpeed's parts that Accelerate and DeepSpeed "
      "ignore too. Keys that have no effect here are accepted and reported once.\n";
  add_section(root_table(), "", "Top of the file", "Accelerate's keys, and two of ours.", page);
  add_sections(root_table(), "", page);
  page += "\n## What is held between options\n\nThe id stands in `trainer check --json`.\n\n| rule | |\n|---|---|\n";
  for (const Rule& rule : rules()) page += fmt::format("| {} | {} |\n", code(rule.id), cell(rule.reason));
  return page;
}

}  // namespace trainer::config
