// Tokens that are recognized in raw text, before the tokenizer's own rules: </s>, <extra_id_0>, …
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace trainer::data {

/// A special token; `strip_*`: it includes the adjacent white space.
struct SpecialToken {
  int32_t id = 0;
  bool strip_left = false;
  bool strip_right = false;
};

/// The special tokens of a tokenizer, by text.
class SpecialTokens {
 public:
  /// A piece of text between special tokens (id -1), or a special token.
  struct Part {
    std::string_view text;
    int32_t id = -1;
  };

  /// Adds a token, unless there is one with the same text.
  void add(const std::string& text, SpecialToken token);

  /// Splits `text` at special tokens, the leftmost first, then the longest. Views are into `text`.
  std::vector<Part> split(std::string_view text) const;

  /// The token with this text; null when there is none.
  const SpecialToken* find(std::string_view text) const;
  /// All tokens, by text.
  const std::map<std::string, SpecialToken, std::less<>>& all() const { return tokens_; }
  /// The text of a special id; null when `id` isn't special.
  const std::string* text_of(int32_t id) const;
  /// One more than the largest id; 0 without tokens.
  int64_t end_id() const { return texts_.empty() ? 0 : texts_.rbegin()->first + 1; }

 private:
  const SpecialToken* match_at(std::string_view text, size_t& length) const;

  std::map<std::string, SpecialToken, std::less<>> tokens_;
  std::map<int32_t, std::string> texts_;
  std::set<size_t, std::greater<>> lengths_;  // of the tokens' texts, longest first
  std::set<char> first_bytes_;
};

}  // namespace trainer::data
