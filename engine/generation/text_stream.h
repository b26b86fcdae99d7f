#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/tokenizers/tokenizer.h"

namespace trainer::generation {

/// The text of a reply while its tokens arrive. It ends before the first of the `stops` in it.
class TextStream {
 public:
  /// `before`: the tokens that the reply continues, which decide whether it begins with a space; none: a new text.
  TextStream(const data::Tokenizer& tokenizer, std::vector<int32_t> before, const std::vector<std::string>& stops);

  /// Adds a token. Returns the text that is certain now and wasn't before: whole characters, no beginning of a stop.
  std::string add(int32_t token);
  /// The rest, once no token follows.
  std::string finish();
  bool stopped() const { return stopped_; }
  /// What add() and finish() returned so far.
  const std::string& text() const { return text_; }

 private:
  std::string decoded() const;
  std::string advance_to(const std::string& text, size_t end);

  const data::Tokenizer& tokenizer_;
  const std::vector<std::string>& stops_;
  std::vector<int32_t> ids_;
  std::string before_;  // its text
  std::string text_;
  bool stopped_ = false;
};

}  // namespace trainer::generation
