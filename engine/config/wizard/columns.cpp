#include "engine/config/wizard/columns.h"

#include <algorithm>

#include <fmt/format.h>

#include "engine/config/document/scalar.h"

namespace trainer::config {
namespace {

using Names = std::vector<std::string>;

// Common column names in datasets on the Hub, the most specific first.
const Names kTargets{"target", "summary", "highlights", "output", "completion", "response", "answer", "translation"};
const Names kClasses{"label", "labels", "class", "category", "sentiment", "intent", "topic", "target", "label_text"};
const Names kTexts{"text", "sentence", "content", "review", "comment", "document", "article", "body", "title"};
const Names kSources{"source", "input", "prompt", "question", "instruction"};

/// The first column with one of these names, in any case, in the order of `names`.
std::string named(const Names& columns, const Names& names, const std::string& but = "") {
  for (const std::string& name : names)
    for (const std::string& column : columns)
      if (lower(column) == name && column != but) return column;
  return "";
}

std::string first_but(const Names& columns, const std::string& but) {
  const auto found = std::find_if(columns.begin(), columns.end(), [&](const std::string& c) { return c != but; });
  return found == columns.end() ? "" : *found;
}

bool has(const Names& columns, const std::string& name) {
  return std::count(columns.begin(), columns.end(), name) != 0;
}

}  // namespace

ColumnRoles guess_roles(const Names& columns, Task task) {
  if (columns.empty()) {
    if (task == Task::kSeq2SeqLm) return {"source", "target"};
    return {"text", task == Task::kSequenceClassification ? "label" : ""};
  }
  const bool pairs = task != Task::kCausalLm;
  Names targets = task == Task::kSequenceClassification ? kClasses : kTargets;
  if (task == Task::kSeq2SeqLm) targets.insert(targets.end(), kClasses.begin(), kClasses.end());
  const std::string text = named(columns, {"text"});
  ColumnRoles roles;
  if (pairs || text.empty()) roles.target = named(columns, targets);
  if (has(columns, "instruction") && has(columns, "input") && !roles.target.empty())
    return {"{instruction}\n{input}", roles.target};
  Names sources = task == Task::kSequenceClassification ? kTexts : kSources;
  const Names& others = task == Task::kSequenceClassification ? kSources : kTexts;
  sources.insert(sources.end(), others.begin(), others.end());
  roles.source = named(columns, sources, roles.target);
  if (roles.source.empty()) roles.source = first_but(columns, roles.target);
  if (roles.source.empty()) std::swap(roles.source, roles.target);
  if (roles.target.empty() && pairs) roles.target = first_but(columns, roles.source);
  return roles;
}

Names columns_in(const std::string& text) {
  if (text.find_first_of("{}") == std::string::npos) return {text};
  Names names;
  for (std::size_t at = 0; (at = text.find('{', at)) != std::string::npos;) {
    if (text.compare(at, 2, "{{") == 0) {  // an escaped brace
      at += 2;
      continue;
    }
    const std::size_t end = text.find('}', at);
    if (end == std::string::npos) break;
    names.push_back(text.substr(at + 1, end - at - 1));
    at = end;
  }
  return names;
}

}  // namespace trainer::config
