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

/// "1 record", "2 records".
template <class Count>
std::string counted(Count count, const char* one, const char* many) {
  return fmt::format("{} {}", count, count == 1 ? one : many);
}

}  // namespace trainer
