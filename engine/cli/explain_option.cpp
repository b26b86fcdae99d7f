#include "engine/cli/explain_option.h"

#include <algorithm>
#include <set>

#include <fmt/ranges.h>

#include "engine/base/edit_distance.h"
#include "engine/config/plan/override.h"
#include "engine/config/plan/tree.h"
#include "engine/config/tables.h"

namespace trainer::cli {
namespace {

using config::Entry;
using config::Foreign;

struct Match {
  std::string path;
  const Entry* entry;
};

bool means(const std::string& name, const std::string& path, const Entry& entry) {
  if (name == path || entry.has_key(name) || (!name.empty() && name == entry.variable)) return true;
  if (entry.flag && *entry.flag == "--" + name) return true;
  const auto dot = path.rfind('.');
  return std::any_of(entry.aliases.begin(), entry.aliases.end(), [&](const std::string& alias) {
    return dot != std::string::npos && name == path.substr(0, dot + 1) + alias;
  });
}

/// The options whose path is `name`; if there are none, those it matches in another way.
std::vector<Match> matches(const std::string& name) {
  std::vector<Match> exact, others;
  config::each_entry(config::root_table(), [&](const std::string& path, const Entry& entry) {
    if (path == name) exact.push_back({path, &entry});
    if (means(name, path, entry)) others.push_back({path, &entry});
  });
  return exact.empty() ? others : exact;
}

std::string line(const char* name, const std::string& text) {
  return text.empty() ? "" : fmt::format("  {:<14}{}\n", name, text);
}

std::string quoted(const config::Node& value) {
  const std::string text = value.is_null() ? "" : config::text_of(value);
  return text.empty() ? "nothing" : text;
}

const config::Node* find(const config::Node& root, const std::string& path) {
  const config::Node* node = &root;
  for (std::size_t start = 0; node && start <= path.size();) {
    const std::size_t end = std::min(path.find('.', start), path.size());
    node = node->find(path.substr(start, end - start));
    start = end + 1;
  }
  return node;
}

std::string value_line(const std::string& path, const config::Plan* plan) {
  if (!plan) return "";
  const auto origin = plan->origins.find(path);
  if (origin == plan->origins.end()) return "";
  const config::Node root = config::to_node(plan->config);
  const config::Node* value = find(root, path);
  return value ? line("value", fmt::format("{} ({})", quoted(*value), origin->second)) : "";
}

/// What became of a key of another program.
std::string notes(const std::string& path, const config::Plan* plan) {
  std::string text;
  if (!plan) return text;
  for (const config::Note& note : plan->translated) {
    if (note.key == path) text += line("became", fmt::format("{} ({}: {})", note.text, note.origin, note.value));
  }
  for (const config::Note& note : plan->without_effect) {
    if (note.key == path) text += line("given", fmt::format("{} ({})", note.value, note.origin));
  }
  return text;
}

std::string foreign_lines(const Entry& entry) {
  if (entry.foreign == Foreign::kNoEffect) return line("effect", "none here: " + entry.reason);
  if (entry.foreign == Foreign::kUnsupported) return line("effect", "refused: " + entry.reason);
  return "";
}

std::string accepted(const Entry& entry) {
  std::string words = entry.kind.words;
  for (const config::Bound& bound : entry.bounds) words += ", " + to_string(bound);
  return words;
}

std::string option_text(const Match& match, const config::Plan* plan) {
  const Entry& entry = *match.entry;
  std::string text = match.path + "\n";
  if (!entry.help.empty()) text += "  " + entry.help + "\n";
  text += line("accepts", accepted(entry));
  if (entry.unsupported) text += line("supported", fmt::format("{}", fmt::join(entry.kind.choices, ", ")));
  if (entry.write) text += line("default", quoted(entry.initial));
  if (!entry.condition.empty()) text += line("only when", entry.condition);
  if (!entry.no_effect.empty()) text += line("effect", "none here: " + entry.no_effect);
  text += foreign_lines(entry);
  text += line("also read as", fmt::format("{}", fmt::join(entry.aliases, ", ")));
  const std::string flag = config::launch_flag(match.path, entry);
  const bool idle = entry.foreign == Foreign::kNoEffect || entry.foreign == Foreign::kUnsupported;
  text += line("flag", flag.empty() && !idle ? "--set " + match.path + "=VALUE" : flag);
  text += line("environment", entry.variable);
  return text + value_line(match.path, plan) + notes(match.path, plan);
}

std::string section_text(const Match& match) {
  const Entry& entry = *match.entry;
  std::string text = match.path + "\n";
  if (!entry.help.empty()) text += "  " + entry.help + "\n";
  if (!entry.condition.empty()) text += line("only when", entry.condition);
  for (const Entry& child : *entry.children) {
    const std::string help = child.reason.empty() ? child.help : "no effect or refused: " + child.reason;
    text += fmt::format("    {:<40} {}\n", child.name, help);
  }
  return text;
}

}  // namespace

bool is_option(const std::string& name) {
  return !matches(name).empty();
}

std::string nearest_option(const std::string& name) {
  std::set<std::string> names;
  config::each_entry(config::root_table(), [&](const std::string& path, const Entry& entry) {
    names.insert({path, entry.name});
  });
  const std::string near = did_you_mean(name, {names.begin(), names.end()});
  if (!near.empty() || name.size() < 4) return near;
  std::vector<std::string> containing;  // the whole paths
  config::each_entry(config::root_table(), [&](const std::string& path, const Entry& entry) {
    if (entry.name.find(name) != std::string::npos) containing.push_back(path);
  });
  constexpr std::size_t kMost = 8;
  if (containing.empty() || containing.size() > kMost) return "";
  return fmt::format("; options with it in their names: {}", fmt::join(containing, ", "));
}

std::string explain_option(const std::string& name, const config::Plan* plan) {
  std::string text;
  for (const Match& match : matches(name)) {
    text += (text.empty() ? "" : "\n") + (match.entry->children ? section_text(match) : option_text(match, plan));
  }
  return text;
}

}  // namespace trainer::cli
