// One sample of a corpus, as input for the model.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/config/sections.h"

namespace trainer::data {

/// `labels[i]` is the token that follows `tokens[i]`, or -100 where the loss ignores it.
struct GptSample {
  std::vector<int32_t> tokens, labels;
  /// Where documents begin in `tokens`; the first entry is 0. Attention never crosses documents, and the position ids
  /// of each document begin at 0.
  std::vector<int32_t> starts{0};
};

/// How tokens become a sample.
struct GptSampleRules {
  const config::MegatronDataConfig& config;
  int32_t eod_id = -1;  // the token between documents; -1: none
  int32_t pad_id = -1;  // a token that the loss ignores; -1: none
  int64_t vocabulary = int64_t{1} << 31;
};

/// The sample of `sequence_length + 1` tokens; a shorter text is padded at the end. Padding is token 0 without a label,
/// and with `eod_mask_loss` the end of a document has no label. Errors: InternalError when there are more tokens.
GptSample make_gpt_sample(std::vector<int32_t>&& text, const GptSampleRules& rules);

}  // namespace trainer::data
