// Translates regular expressions from Oniguruma's (Ruby's) syntax, which tokenizer.json uses, to PCRE2's.
#pragma once

#include <string>
#include <string_view>

namespace trainer::data {

/// `expression` in PCRE2's syntax, to be compiled with UTF, UCP and MULTILINE. For the patterns of known tokenizers,
/// the syntaxes differ in: the characters of \s, \w and \h; `{n,m}+`, which repeats and is not possessive; `{,m}`; and
/// nested sets. Nested sets and options with another meaning are rejected. Errors: Malformed.
/// Source: Oniguruma's doc/RE and pcre2pattern(3).
std::string from_oniguruma(std::string_view expression);

}  // namespace trainer::data
