#include "data/megatron/gpt_sample.h"

#include "engine/base/errors.h"

namespace trainer::data {
namespace {

constexpr int32_t kNoLabel = -100, kPadding = -1;

}  // namespace

GptSample make_gpt_sample(std::vector<int32_t>&& text, const GptSampleRules& rules) {
  const auto length = static_cast<size_t>(rules.config.sequence_length);
  require(text.size() <= length + 1, "{} tokens in a sample of {}", text.size(), length);
  text.resize(length + 1, kPadding);
  auto is_padding = [&](int32_t token) { return token < 0 || token == rules.pad_id; };

  GptSample sample;
  sample.labels.assign(text.begin() + 1, text.end());
  for (size_t i = 0; i < length; ++i) {
    const bool ends_document = rules.eod_id >= 0 && text[i] == rules.eod_id;
    if (is_padding(sample.labels[i]) || (ends_document && rules.config.eod_mask_loss)) sample.labels[i] = kNoLabel;
    if (ends_document && rules.config.reset_attention_mask && i + 1 < length) {
      sample.starts.push_back(static_cast<int32_t>(i + 1));
    }
    if (is_padding(text[i])) text[i] = 0;
  }
  text.pop_back();
  sample.tokens = std::move(text);
  return sample;
}

}  // namespace trainer::data
