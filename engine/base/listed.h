#pragma once

#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace trainer {

/// "a, b and c", with `last` for "and".
template <class Word>
std::string listed(const std::vector<Word>& words, const char* last) {
  if (words.size() < 2) return words.empty() ? "" : std::string(words.front());
  return fmt::format("{} {} {}", fmt::join(words.begin(), words.end() - 1, ", "), last, words.back());
}

}  // namespace trainer
