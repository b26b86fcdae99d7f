// One sample of a corpus as the model sees it.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/config/sections.h"

namespace trainer::data {

/// `labels[i]` is the token that follows `tokens[i]`, or -100 where nothing is learnt.
struct GptSample {
  std::vector<int32_t> tokens, labels;
  /// Where documents begin in `tokens`, from 0 on: one sees nothing of the other, and its positions begin at 0.
  std::vector<int32_t> starts{0};
};

/// How tokens become a sample.
struct GptSampleRules {
  const config::MegatronDataConfig& config;
  int32_t eod_id = -1;  // the token between documents; -1: none
  int32_t pad_id = -1;  // a token the loss leaves out; -1: none
  int64_t vocabulary = int64_t{1} << 31;
};

/// The sample of `sequence_length + 1` tokens; what is missing at the end is padding. Padding is token 0 without a
/// label, and with `eod_mask_loss` the end of a document has no label. Errors: InternalError when there are more
/// tokens.
GptSample make_gpt_sample(std::vector<int32_t>&& text, const GptSampleRules& rules);

}  // namespace trainer::data
