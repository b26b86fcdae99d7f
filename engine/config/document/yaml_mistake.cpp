#include "engine/config/document/yaml_mistake.h"

#include <string_view>
#include <utility>

namespace trainer::config {
namespace {

constexpr std::pair<std::string_view, const char*> kExplanations[] = {
    {"illegal map value",
     "a ':' where no key can end; is a ':' missing on the line before, or does a text that contains ': ' need quotes?"},
    {"end of map not found", "the indentation of this line differs from the lines around it, or its key has no ':'"},
    {"end of sequence not found", "the indentation of this line differs from the items of the list around it"},
    {"end of map flow not found", "a '{' has no closing '}'"},
    {"end of sequence flow not found", "a '[' has no closing ']'"},
    {"illegal flow end", "this closing bracket has no opening bracket"},
    {"illegal block entry", "a '- ' where no list can be"},
    {"illegal map key", "a key where none can be"},
    {"the referenced anchor is not defined",
     "this alias (*name) names nothing; a text that begins with * needs quotes"},
    {"alias not found after *", "a name is missing after *; a text that begins with * needs quotes"},
    {"anchor not found after &", "a name is missing after &; a text that begins with & needs quotes"},
    {"unknown escape character", "an unknown escape after a backslash; in single quotes a backslash is literal"},
    {"unknown token", "a character that YAML reserves: a text that begins with it needs quotes"},
    {"illegal EOF in scalar", "the file ends inside a quoted text"},
};

std::string_view line_of(std::string_view text, int line) {
  for (int i = 1; i < line; ++i) {
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos) return "";
    text.remove_prefix(end + 1);
  }
  return text.substr(0, text.find('\n'));
}

}  // namespace

std::string yaml_mistake(const std::string& text, int line, const std::string& message) {
  const std::string_view there = line_of(text, line);
  const std::string_view indent = there.substr(0, there.find_first_not_of(" \t"));
  if (indent.find('\t') != std::string_view::npos) return "tabs can't be used for indentation: use spaces";
  for (const auto& [theirs, ours] : kExplanations) {
    if (message.starts_with(theirs)) return ours;
  }
  return message;
}

}  // namespace trainer::config
