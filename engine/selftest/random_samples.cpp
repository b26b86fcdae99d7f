#include "engine/selftest/random_samples.h"

#include <algorithm>

namespace trainer::selftest {

data::MemorySamples random_samples(const TinyModel& model) {
  const bool causal = model.task == config::Task::kCausalLm,
             classes = model.task == config::Task::kSequenceClassification;
  data::MemorySamples samples(causal    ? data::LabelKind::kNext
                              : classes ? data::LabelKind::kClass
                                        : data::LabelKind::kTarget);
  uint32_t state = 7;
  const auto draw = [&](int64_t low, int64_t high) {
    state = state * 1664525 + 1013904223;
    return static_cast<int32_t>(low + (state >> 8) % static_cast<uint32_t>(high - low));
  };
  const auto draw_tokens = [&](int64_t most) {
    std::vector<int32_t> tokens(static_cast<size_t>(draw(1, most)));
    std::generate(tokens.begin(), tokens.end(), [&] { return draw(2, model.vocabulary); });
    return tokens;
  };
  constexpr int64_t kSamples = 37, kClasses = 3;
  for (int64_t i = 0; i < kSamples; ++i) {
    std::vector<int32_t> source = draw_tokens(24), labels;
    if (classes)
      labels = {draw(0, kClasses)};
    else if (!causal)
      labels = draw_tokens(7);
    else {
      labels.assign(source.begin() + 1, source.end());
      labels.push_back(draw(2, model.vocabulary));
      if (labels.size() > 2) labels[0] = -100;  // a prompt
    }
    samples.add(std::move(source), std::move(labels));
  }
  return samples;
}

}  // namespace trainer::selftest
