#include "engine/config/schema.h"

#include <algorithm>

#include "engine/config/document/json_text.h"

namespace trainer::config {
namespace {

/// The choice that matches `text`, or "".
std::string chosen(const std::string& text, const std::vector<std::string>& choices) {
  auto has = [&](const std::string& choice) {
    return std::find(choices.begin(), choices.end(), choice) != choices.end();
  };
  for (const std::string& choice : choices) {
    if (lower(choice) == lower(text)) return choice;
  }
  const auto truth = parse_bool(text);
  const std::string word = truth ? (*truth ? "true" : "false") : "";
  return truth && has(word) ? word : "";
}

ForeignKey foreign_key(std::string name, Foreign foreign, std::string reason) {
  ForeignKey key;
  key.entry.name = std::move(name);
  key.entry.foreign = foreign;
  key.entry.reason = std::move(reason);
  key.entry.kind = {Type::kText, "", {}};
  return key;
}

}  // namespace

bool Entry::has_key(const std::string& key) const {
  return name == key || std::find(aliases.begin(), aliases.end(), key) != aliases.end();
}

void restrict_texts(Entry& entry, std::vector<std::string> choices, std::string also) {
  const bool may_be_empty = std::erase(choices, "") > 0;
  entry.kind.words = fmt::format("one of {}", fmt::join(choices, ", ")) + (also.empty() ? "" : ", or " + also);
  entry.kind.choices = also.empty() ? choices : std::vector<std::string>{};
  entry.keywords = choices;
  if (also.empty()) entry.kind.known = choices;
  entry.read = [inner = entry.read, texts = entry.texts, kind = entry.kind, choices = std::move(choices),
                also = std::move(also), may_be_empty](const Node& node, void* section) {
    Node checked = node;
    auto check = [&](Node& scalar) -> std::string {
      if (may_be_empty && scalar.is_scalar() && scalar.text.empty()) return "";
      const std::string choice = scalar.is_scalar() ? chosen(scalar.text, choices) : "";
      if (!choice.empty()) scalar.text = choice;
      if (!choice.empty() || (!also.empty() && scalar.is_scalar())) return "";
      return fmt::format("must be {}; is {}{}", kind.words, described(scalar), did_you_mean(scalar.text, choices));
    };
    if (checked.is_scalar()) {
      if (auto why = check(checked); !why.empty()) return why;
    }
    for (Node& item : checked.items) {
      if (auto why = check(item); !why.empty()) return why;
    }
    return inner(checked, section);
  };
}

void make_json(Entry& entry, std::function<std::string&(void*)> text) {
  entry.kind = {Type::kGroup, "a group of keys", {}};
  entry.read = [text](const Node& node, void* section) -> std::string {
    if (!node.is_map()) return fmt::format("must be a group of keys; is {}", described(node));
    std::string& json = text(section);
    Node merged = json.empty() ? Node::map() : from_json(json);
    for (const Member& member : node.members) merged[member.key] = member.value;
    json = to_json(merged);
    return "";
  };
  entry.write = [text](const void* section) {
    const std::string& json = text(const_cast<void*>(section));
    return json.empty() ? Node() : from_json(json);
  };
}

void make_comma_list(Entry& entry, std::function<std::vector<std::string>&(void*)> list) {
  entry.kind = {Type::kTexts, "names, separated by commas", {}};
  entry.read = [list](const Node& node, void* section) {
    if (!node.is_scalar()) return decode(node, list(section));
    list(section) = split(node.text, ',');
    return std::string();
  };
  entry.write = [list](const void* section) {
    return Node::scalar(fmt::format("{}", fmt::join(list(const_cast<void*>(section)), ",")), true);
  };
}

ForeignKey no_effect(std::string name, std::string reason) {
  return foreign_key(std::move(name), Foreign::kNoEffect, std::move(reason));
}

ForeignKey unsupported(std::string name, std::string reason) {
  return foreign_key(std::move(name), Foreign::kUnsupported, std::move(reason));
}

ForeignKey translated(std::string name, std::string help) {
  ForeignKey key = foreign_key(std::move(name), Foreign::kTranslated, "");
  key.entry.help = std::move(help);
  return key;
}

ForeignKey group(std::string name, std::string help, const Entries& children) {
  ForeignKey key = foreign_key(std::move(name), Foreign::kNot, "");
  key.entry.help = std::move(help);
  key.entry.kind = {Type::kGroup, "a group of keys", {}};
  key.entry.children = &children;
  // There is no struct: its keys are stored in the draft by their path.
  key.entry.open = [](void* section) { return section; };
  key.entry.find = [](const void* section) { return section; };
  return key;
}

ForeignKey&& ForeignKey::one_of(std::vector<std::string> choices, std::vector<std::string> refused) && {
  std::vector<std::string> known = choices;
  known.insert(known.end(), refused.begin(), refused.end());
  entry.kind = {Type::kText, fmt::format("one of {}", fmt::join(choices, ", ")), choices, known};
  entry.read = [choices, known, words = entry.kind.words](const Node& node, void*) {
    if (node.is_scalar() && !chosen(node.text, known).empty()) return std::string();
    return fmt::format("must be {}; is {}{}", words, described(node), did_you_mean(node.text, choices));
  };
  return std::move(*this);
}

}  // namespace trainer::config
