// PEFT's regular expressions.
#pragma once

#include <string>

namespace trainer::adapters {

/// Whether the whole `text` matches. Errors: ConfigError that names `option` when `pattern` is no regular expression.
bool matches_whole(const std::string& text, const std::string& pattern, const char* option);
/// Whether the end of `path`, from a dot or from its start on, matches: the keys of rank_pattern and alpha_pattern.
bool matches_end(const std::string& path, const std::string& pattern, const char* option);
/// The number that `pattern`'s first group finds at the start of `text`; -1: it doesn't match there.
int64_t number_at_start(const std::string& text, const std::string& pattern, const char* option);

}  // namespace trainer::adapters
