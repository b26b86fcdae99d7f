// From Oniguruma's way to write regular expressions (Ruby's), which tokenizer.json uses, to PCRE2's.
#pragma once

#include <string>
#include <string_view>

namespace trainer::data {

/// `expression` in PCRE2's syntax, to be compiled with UTF, UCP and MULTILINE. Both read the patterns of known
/// tokenizers alike except for: which characters \s, \w and \h are; that `{n,m}+` repeats, and is not possessive;
/// `{,m}`; and sets within sets. Sets within sets and options that mean something else are refused. Errors: Malformed.
/// Source: Oniguruma's doc/RE and pcre2pattern(3).
std::string from_oniguruma(std::string_view expression);

}  // namespace trainer::data
