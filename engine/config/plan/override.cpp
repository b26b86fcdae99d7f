#include "engine/config/plan/override.h"

#include <filesystem>

#include "engine/config/plan/given_text.h"
#include "engine/config/tables.h"

namespace trainer::config {
namespace {

void place(Node& node, const Mark& mark) {
  node.mark = mark;
  for (Node& item : node.items) place(item, mark);
  for (Member& member : node.members) {
    member.mark = mark;
    place(member.value, mark);
  }
}

/// True for options that are a text, such as a template "{sentence}", which YAML would read as a group of keys.
bool holds_text(const std::string& path) {
  bool text = false;
  each_entry(root_table(), [&](const std::string& known, const Entry& entry) {
    const bool option = entry.foreign == Foreign::kNot && !entry.children && entry.kind.type == Type::kText;
    if (option && known == path) text = true;
  });
  return text;
}

/// YAML if the value begins with YAML's brackets or quotes, otherwise text.
Node value_of(const Override& given, Problems& problems) {
  const std::string& text = given.value;
  const bool yaml = !text.empty() && std::string("[{'\"").find(text.front()) != std::string::npos;
  if (yaml && !holds_text(given.path)) return parse_yaml(text, given.source, problems);
  if (text == "null" || text == "~") return Node::null(text);
  return Node::scalar(text);
}

}  // namespace

Node document_of(const std::string& path, Node value, const Mark& mark) {
  Node root = Node::map();
  Node* inner = &root;
  for (std::size_t start = 0; start <= path.size();) {
    const std::size_t end = std::min(path.find('.', start), path.size());
    inner->kind = Node::Kind::kMap;
    inner = &(*inner)[path.substr(start, end - start)];
    start = end + 1;
  }
  *inner = std::move(value);
  place(root, mark);
  return root;
}

void apply_override(const Override& given, Draft& draft) {
  const Mark mark{std::make_shared<const std::string>(given.source), 0, 0};
  const Node document = document_of(given.path, value_of(given, draft.problems), mark);
  refuse_secrets(document, draft.problems);
  refuse_doubtful(document, draft.problems);
  apply(document, std::filesystem::current_path(), draft);
}

std::string launch_flag(const std::string& path, const Entry& entry) {
  if (entry.children) return "";
  if (entry.flag) return *entry.flag;
  const auto dot = path.find('.');
  // Foreign keys at the top declare their flag: Accelerate's launcher has none for most keys of TPUs and SageMaker.
  bool has_one = dot == std::string::npos && (entry.foreign == Foreign::kNot || entry.foreign == Foreign::kTranslated);
  for (const Entry& section : root_table()) {
    has_one = has_one || (section.accelerate && section.children && section.name == path.substr(0, dot));
  }
  return has_one ? "--" + entry.name : "";
}

}  // namespace trainer::config
