// `post_processor` of tokenizer.json: what is put around the tokens of a text.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "data/tokenizers/json_view.h"

namespace trainer::data {

/// A token of a text and the bytes [begin, end) of the original text it stands for; 0, 0 for one that was put there.
struct PlacedToken {
  int32_t id;
  uint32_t begin, end;
  uint16_t leading_spaces = 0, trailing_spaces = 0;  ///< of the token's own text, in characters
};

/// Adds tokens and corrects places. Constant once made: any number of threads may use one at the same time.
class PostProcessor {
 public:
  virtual ~PostProcessor() = default;
  /// `original`: the text. Special tokens are added when `add_special`.
  virtual void apply(std::vector<PlacedToken>& tokens, std::string_view original, bool add_special) const = 0;
};

/// Makes the post-processor that `view` describes, null for null; what cannot be read is noted there.
std::unique_ptr<PostProcessor> read_post_processor(const JsonView& view);

/// One of tokens in front and behind, for formats that have no `post_processor`.
std::unique_ptr<PostProcessor> surround(std::vector<int32_t> front, std::vector<int32_t> behind);

}  // namespace trainer::data
