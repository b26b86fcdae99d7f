#include "data/readers/record_template.h"

#include <algorithm>
#include <utility>

#include "engine/base/edit_distance.h"
#include "engine/base/errors.h"

namespace trainer::data {

Template::Template(std::string_view text, std::string option) : option_(std::move(option)) {
  if (text.empty()) throw ConfigError("{}: must name a column.", option_);
  if (text.find_first_of("{}") == std::string_view::npos) {
    parts_.push_back({std::string(text), true});
  } else {
    parse(text);
  }
}

void Template::parse(std::string_view text) {
  std::string literal;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    bool brace = c == '{' || c == '}';
    if (!brace || (i + 1 < text.size() && text[i + 1] == c)) {
      literal += c;
      if (brace) ++i;
      continue;
    }
    size_t end = text.find_first_of("{}", i + 1);
    if (c == '}' || end == std::string_view::npos || text[end] != '}' || end == i + 1) {
      throw ConfigError("{}: expected a column in braces at character {} of \"{}\"; write {{{{ or }}}} for a brace.",
                        option_, i + 1, text);
    }
    if (!literal.empty()) parts_.push_back({std::exchange(literal, {}), false});
    parts_.push_back({std::string(text.substr(i + 1, end - i - 1)), true});
    i = end;
  }
  if (!literal.empty()) parts_.push_back({std::move(literal), false});
  if (std::none_of(parts_.begin(), parts_.end(), [](const Part& part) { return part.is_column; })) {
    throw ConfigError("{}: \"{}\" names no column, so all samples would be identical.", option_, text);
  }
}

std::string Template::render(const Record& record) const {
  std::string text;
  for (const Part& part : parts_) text += part.is_column ? field(record, part.text) : part.text;
  return text;
}

const std::string& Template::field(const Record& record, const std::string& column) const {
  if (const std::string* text = record.find(column)) {
    const bool nested = record.is_json(column) && (text->starts_with('{') || text->starts_with('['));
    if (!nested) return *text;
    throw InputError("{}: column '{}', which `{}` uses, contains {} instead of text.", record.where(), column, option_,
                     text->front() == '{' ? "an object" : "a list");
  }
  std::vector<std::string> names;
  for (const auto& [name, text] : record.fields) names.push_back(name);
  constexpr size_t kShown = 20;
  std::string shown = fmt::format("{}", fmt::join(names.begin(), names.begin() + std::min(names.size(), kShown), ", "));
  throw InputError("{}: no column '{}', which `{}` uses{}.\nThe record has: {}{}.", record.where(), column, option_,
                   did_you_mean(column, names), shown, names.size() > kShown ? ", …" : "");
}

}  // namespace trainer::data
