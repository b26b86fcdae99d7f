// PEFT's regular expressions.
#pragma once

#include <string>

namespace trainer::adapters {

/// Whether the whole `text` matches. Errors: ConfigError that names `option` if `pattern` isn't a regular expression.
bool matches_whole(const std::string& text, const std::string& pattern, const char* option);
/// Whether `pattern` matches `path` or its end after a dot, as for the keys of rank_pattern and alpha_pattern.
bool matches_end(const std::string& path, const std::string& pattern, const char* option);
/// The number that `pattern`'s last group matches at the start of `text`; -1 without a match there.
int64_t number_at_start(const std::string& text, const std::string& pattern, const char* option);

}  // namespace trainer::adapters
