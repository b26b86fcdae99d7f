#include "engine/config/resolve.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "engine/base/errors.h"
#include "engine/config/files.h"
#include "engine/config/rules.h"
#include "engine/config/tables.h"

namespace trainer::config {
namespace {

namespace fs = std::filesystem;

void apply_file(const std::string& file, Draft& draft) {
  if (file.empty()) return;
  Node document = read_yaml_file(file, draft.problems);
  expand_environment(document, draft.problems);
  apply(document, fs::absolute(file).parent_path(), draft);
}

void place(Node& node, const Mark& mark) {
  node.mark = mark;
  for (Node& item : node.items) place(item, mark);
  for (Member& member : node.members) {
    member.mark = mark;
    place(member.value, mark);
  }
}

/// True for options that hold one text, such as a template "{sentence}", which YAML would take for a group of keys.
bool holds_text(const std::string& path) {
  const Entries* entries = &root_table();
  for (std::size_t start = 0; entries;) {
    const std::size_t end = std::min(path.find('.', start), path.size());
    const std::string key = path.substr(start, end - start);
    auto entry = std::find_if(entries->begin(), entries->end(), [&](const Entry& e) { return e.has_key(key); });
    if (entry == entries->end()) return false;
    if (!entry->children) return entry->kind.words == kind_of<std::string>().words;
    entries = entry->children;
    start = end + 1;
    if (start > path.size()) return false;
  }
  return false;
}

/// The value of a flag: YAML where it has YAML's brackets or quotes, text otherwise.
Node value_of(const Override& given, Problems& problems) {
  const std::string& text = given.value;
  const bool yaml = !text.empty() && std::string("[{'\"").find(text.front()) != std::string::npos;
  if (yaml && !holds_text(given.path)) {
    return parse_yaml(text, given.source, problems);
  }
  if (text == "null" || text == "~") return Node();
  return Node::scalar(text);
}

/// `path: value` as a document of its own.
Node document_of(const Override& given, Problems& problems) {
  Node root = Node::map();
  Node* place_of_value = &root;
  for (std::size_t start = 0; start <= given.path.size();) {
    const std::size_t end = std::min(given.path.find('.', start), given.path.size());
    place_of_value->kind = Node::Kind::kMap;
    place_of_value = &(*place_of_value)[given.path.substr(start, end - start)];
    start = end + 1;
  }
  *place_of_value = value_of(given, problems);
  place(root, Mark{std::make_shared<const std::string>(given.source), 0, 0});
  return root;
}

void apply_override(const Override& given, Draft& draft) {
  apply(document_of(given, draft.problems), fs::current_path(), draft);
}

std::map<std::string, std::string> all_origins(const Draft& draft) {
  std::map<std::string, std::string> origins;
  walk(root_table(), &draft.config, [&](const std::string& path, const Entry& entry, const void*) {
    if (entry.foreign == Foreign::kNot && !entry.children) origins[path] = to_string(draft.mark(path));
    return true;
  });
  return origins;
}

}  // namespace

Plan resolve_plan(const Sources& sources) {
  Draft draft;
  apply_file(sources.file, draft);
  apply_file(sources.job_file, draft);
  for (const Variable& variable : kVariables) {
    const char* value = std::getenv(variable.name);
    if (value && *value) apply_override({variable.path, value, fmt::format("environment {}", variable.name)}, draft);
  }
  for (const Override& given : sources.overrides) apply_override(given, draft);

  const std::string main_file = sources.file.empty() ? sources.job_file : sources.file;
  translate_foreign_keys(draft);
  check_options(draft);
  check_rules(draft, sources.job_file.empty() ? main_file : sources.job_file);
  draft.problems.throw_if_any();

  const bool shares_folder = draft.config.tokenizer.path.empty();
  complete(draft.config);
  draft.config.output_dir = absolute_path(draft.config.output_dir, fs::absolute(main_file).parent_path());
  Plan plan;
  plan.origins = all_origins(draft);
  if (shares_folder) plan.origins["tokenizer.path"] = "model.path";
  plan.config = std::move(draft.config);
  plan.warnings = std::move(draft.warnings);
  plan.source = main_file;
  return plan;
}

}  // namespace trainer::config
