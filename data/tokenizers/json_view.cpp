#include "data/tokenizers/json_view.h"

#include <fmt/format.h>

#include "data/tokenizers/text/characters.h"
#include "engine/base/errors.h"

namespace trainer::data {
namespace {

const nlohmann::json kNull;

}  // namespace

void JsonProblems::add(const std::string& path, const std::string& problem) {
  if (++count_ <= kShown) lines_.push_back(fmt::format("{}: {}.", path.empty() ? "the whole file" : path, problem));
}

void JsonProblems::throw_if_any(const std::string& file) const {
  if (count_ == 0) return;
  std::string more = count_ > kShown ? fmt::format("\nand {} more.", count_ - kShown) : "";
  throw InputError("{}: not a usable tokenizer.\n{}{}", file, fmt::join(lines_, "\n"), more);
}

JsonView JsonView::at(std::string_view key) const {
  std::string path = path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key);
  if (!value_->is_object()) {
    if (!value_->is_null()) expected("an object");
    return {kNull, *problems_, path};
  }
  auto found = value_->find(key);
  return {found == value_->end() ? kNull : *found, *problems_, path};
}

std::vector<JsonView> JsonView::items() const {
  std::vector<JsonView> items;
  if (!value_->is_array()) {
    if (!value_->is_null()) expected("a list");
    return items;
  }
  items.reserve(value_->size());
  for (size_t i = 0; i < value_->size(); ++i) {
    items.push_back({(*value_)[i], *problems_, fmt::format("{}[{}]", path_, i)});
  }
  return items;
}

std::string JsonView::text(std::optional<std::string> fallback) const {
  if (is_null() && fallback) return *fallback;
  if (value_->is_string()) return value_->get<std::string>();
  expected("a string");
  return "";
}

bool JsonView::flag(std::optional<bool> fallback) const {
  if (is_null() && fallback) return *fallback;
  if (value_->is_boolean()) return value_->get<bool>();
  expected("true or false");
  return false;
}

int64_t JsonView::integer(int64_t least, int64_t most, std::optional<int64_t> fallback) const {
  if (is_null() && fallback) return *fallback;
  bool fits = value_->is_number_unsigned() ? value_->get<uint64_t>() <= static_cast<uint64_t>(most)
                                           : value_->is_number_integer();
  if (fits && value_->get<int64_t>() >= least && value_->get<int64_t>() <= most) return value_->get<int64_t>();
  expected(fmt::format("an integer from {} to {}", least, most));
  return least;
}

double JsonView::number() const {
  if (value_->is_number()) return value_->get<double>();
  expected("a number");
  return 0;
}

char32_t JsonView::character() const {
  std::string given = text();
  if (!given.empty()) {
    Char first = char_at(given, 0);
    if (first.length == given.size()) return first.code;
  }
  if (is_text()) problem(fmt::format("expected one character, found \"{}\"", given));
  return U' ';
}

void JsonView::expected(std::string_view what) const {
  if (is_null()) {
    problem(fmt::format("missing; expected {}", what));
  } else {
    problem(fmt::format("expected {}, found type {}", what, value_->type_name()));
  }
}

}  // namespace trainer::data
