// `post_processor` of tokenizer.json: adds special tokens around the tokens of a text.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "data/tokenizers/json_view.h"

namespace trainer::data {

/// A token and the bytes [begin, end) of the original text it represents; 0, 0 for an added token.
struct PlacedToken {
  int32_t id;
  uint32_t begin, end;
  uint16_t leading_spaces = 0, trailing_spaces = 0;  ///< of the token's own text, in characters
};

/// Adds tokens and corrects offsets. Immutable: safe to use from several threads.
class PostProcessor {
 public:
  virtual ~PostProcessor() = default;
  /// `original`: the text. Special tokens are added if `add_special`.
  virtual void apply(std::vector<PlacedToken>& tokens, std::string_view original, bool add_special) const = 0;
};

/// Makes the post-processor that `view` describes, null for null; problems are recorded in `view`.
std::unique_ptr<PostProcessor> read_post_processor(const JsonView& view);

/// Adds tokens before and after a text, for formats without a `post_processor`.
std::unique_ptr<PostProcessor> surround(std::vector<int32_t> front, std::vector<int32_t> behind);

}  // namespace trainer::data
