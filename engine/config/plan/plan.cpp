#include "engine/config/plan/plan.h"

#include <algorithm>

#include "engine/base/errors.h"
#include "engine/config/plan/reader.h"
#include "engine/config/plan/tree.h"

namespace trainer::config {
namespace {

Node node_of(const std::vector<Note>& notes) {
  Node list;
  list.kind = Node::Kind::kList;
  for (const Note& note : notes) list.items.push_back(Node::list({note.key, note.value, note.origin, note.text, note.option}));
  return list;
}

std::vector<Note> notes_of(const Node& list) {
  std::vector<Note> notes;
  for (const Node& item : list.items) {
    require(item.items.size() == 5, "a note of the plan's text has {} parts", item.items.size());
    const auto part = [&](std::size_t index) { return item.items[index].text; };
    notes.push_back({part(0), part(1), part(2), part(3), part(4)});
  }
  return notes;
}

/// Notes as comment lines.
std::string listed(const char* title, const std::vector<Note>& notes, const char* verb) {
  std::string text;
  for (const Note& note : notes) {
    if (text.empty()) text = fmt::format("#\n# {}\n", title);
    text += fmt::format("#   {}: {} ({}) {} {}\n", note.key, shown(note.value), shown(note.origin, 300), verb,
                        shown(note.text, 300));
  }
  return text;
}

/// The source of a note without the position: "job.yaml", "environment" or "command line".
std::string source_name(const std::string& origin) {
  if (origin.starts_with("--")) return "command line";
  return origin.starts_with(kEnvironmentSource) ? "environment" : origin.substr(0, origin.find(':'));
}

std::string annotated_text(const Plan& plan, const char* which, Options options) {
  std::string text =
      fmt::format("# The resolved configuration: {}, its value, and where the value came from.\n", which);
  for (const std::string& warning : plan.warnings) text += "# warning: " + shown(warning, 500) + "\n";
  text += listed("Translated keys:", plan.translated, "becomes");
  text += listed("Keys without effect:", plan.without_effect, "because");
  return text + to_yaml(to_node(plan.config, options, [&](const std::string& path) {
           auto origin = plan.origins.find(path);
           return origin == plan.origins.end() ? std::string() : origin->second;
         }));
}

}  // namespace

Note translated_note(const std::string& key, const std::string& value, const std::string& origin,
                     const std::string& option, const std::string& set_to, const std::string& reason) {
  return {key, value, origin, option + ": " + set_to + (reason.empty() ? "" : ", because " + reason), option};
}

int64_t Plan::data_ranks() const {
  if (!config.parallelism_config) return world_size();
  const ParallelismConfig& p = *config.parallelism_config;
  return std::max<int64_t>(1, world_size() / (p.tp_size * p.cp_size * p.sp_size * p.pp_size));
}

std::string located(const Plan& plan, const std::string& message) {
  const auto origin = plan.origins.find(message.substr(0, message.find_first_of(": ")));
  const bool placed = origin != plan.origins.end() && origin->second != to_string(Mark());
  return placed ? origin->second + ": " + message : message;
}

std::string to_text(const Plan& plan) {
  Node root = Node::map();
  root["source"] = Node::scalar(plan.source, true);
  root["warnings"] = Node::list(plan.warnings);
  root["translated"] = node_of(plan.translated);
  root["without_effect"] = node_of(plan.without_effect);
  Node& origins = root["origins"] = Node::map();
  for (const auto& [path, origin] : plan.origins) origins[path] = Node::scalar(origin, true);
  root["config"] = to_node(plan.config);
  return to_yaml(root);
}

Plan parse_plan(const std::string& text) {
  Draft draft;
  const Node root = parse_yaml(text, "plan", draft.problems);
  const Node *source = root.find("source"), *warnings = root.find("warnings"), *origins = root.find("origins"),
             *config = root.find("config"), *translated = root.find("translated"),
             *without_effect = root.find("without_effect");
  require(source && warnings && origins && config && translated && without_effect, "the plan's text lacks a part");
  apply(*config, "", draft);
  require(draft.problems.empty(), "the plan's text is not readable: {}", draft.problems.text());
  Plan plan;
  plan.source = source->text;
  for (const Node& warning : warnings->items) plan.warnings.push_back(warning.text);
  plan.translated = notes_of(*translated);
  plan.without_effect = notes_of(*without_effect);
  for (const Member& origin : origins->members) plan.origins[origin.key] = origin.value.text;
  plan.config = std::move(draft.config);
  return plan;
}

std::vector<std::string> launch_warnings(const Plan& plan) {
  std::vector<std::string> all = plan.warnings;
  std::vector<std::pair<std::string, std::vector<std::string>>> by_source;
  for (const Note& note : plan.without_effect) {
    const std::string source = source_name(note.origin);
    auto of_source = std::find_if(by_source.begin(), by_source.end(), [&](auto& s) { return s.first == source; });
    if (of_source == by_source.end()) of_source = by_source.insert(by_source.end(), {source, {}});
    of_source->second.push_back(note.key.substr(note.key.rfind('.') + 1));
  }
  for (const auto& [source, names] : by_source) {
    all.push_back(
        fmt::format("{}: these keys have no effect here: {} (see `trainer check`)", source, fmt::join(names, ", ")));
  }
  return all;
}

std::string resolved_text(const Plan& plan) {
  return annotated_text(plan, "every option that has an effect in this run", Options::kWithEffect);
}

std::string explained_text(const Plan& plan) {
  return annotated_text(plan, "every option", Options::kAll);
}

}  // namespace trainer::config
