// PEFT's regular expressions.
#pragma once

#include <map>
#include <string>

namespace trainer::adapters {

/// Whether the whole `text` matches. Errors: ConfigError that names `option` if `pattern` isn't a regular expression.
bool matches_whole(const std::string& text, const std::string& pattern, const char* option);
/// Whether `pattern` matches `path` or its end after a dot, as for the keys of rank_pattern and alpha_pattern.
bool matches_end(const std::string& path, const std::string& pattern, const char* option);
/// The value of the first key, in alphabetical order, that matches the end of `path`; else `otherwise`.
template <class T>
T by_pattern(const std::map<std::string, T>& patterns, const std::string& path, T otherwise, const char* option) {
  for (const auto& [pattern, value] : patterns)
    if (matches_end(path, pattern, option)) return value;
  return otherwise;
}
/// The number that `pattern`'s last group matches at the start of `text`; -1 without a match there.
int64_t number_at_start(const std::string& text, const std::string& pattern, const char* option);

}  // namespace trainer::adapters
