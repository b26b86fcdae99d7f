#include "engine/config/plan.h"

#include "engine/base/errors.h"
#include "engine/config/reader.h"
#include "engine/config/tree.h"

namespace trainer::config {

std::string to_text(const Plan& plan) {
  Node root = Node::map();
  root["source"] = Node::scalar(plan.source, true);
  root["warnings"] = Node::list(plan.warnings);
  Node& origins = root["origins"] = Node::map();
  for (const auto& [path, origin] : plan.origins) origins[path] = Node::scalar(origin, true);
  root["config"] = to_node(plan.config);
  return to_yaml(root);
}

Plan parse_plan(const std::string& text) {
  Draft draft;
  const Node root = parse_yaml(text, "plan", draft.problems);
  const Node *source = root.find("source"), *warnings = root.find("warnings"), *origins = root.find("origins"),
             *config = root.find("config");
  require(source && warnings && origins && config, "the plan's text lacks a part");
  apply(*config, "", draft);
  require(draft.problems.empty(), "the plan's text is not readable: {}", draft.problems.text());
  Plan plan;
  plan.source = source->text;
  for (const Node& warning : warnings->items) plan.warnings.push_back(warning.text);
  for (const Member& origin : origins->members) plan.origins[origin.key] = origin.value.text;
  plan.config = std::move(draft.config);
  return plan;
}

std::string resolved_text(const Plan& plan) {
  std::string text = "# The configuration as it was understood: every option, its value, and where that came from.\n";
  for (const std::string& warning : plan.warnings) text += "# warning: " + shown(warning, 500) + "\n";
  return text + to_yaml(to_node(plan.config, [&](const std::string& path) {
           auto origin = plan.origins.find(path);
           return origin == plan.origins.end() ? std::string() : origin->second;
         }));
}

}  // namespace trainer::config
