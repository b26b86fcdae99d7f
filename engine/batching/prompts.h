#pragma once

#include "data/samples/samples.h"

namespace trainer::batching {

/// The prompts of causal samples: the part before the last learned reply, which the model continues.
class Prompts : public data::Samples {
 public:
  explicit Prompts(const data::Samples& samples) : samples_(samples) {}

  int64_t size() const override { return samples_.size(); }
  void read(int64_t index, data::Sample& sample) const override;
  data::Lengths lengths(int64_t index) const override;
  data::LabelKind label_kind() const override { return data::LabelKind::kNext; }

 private:
  const data::Samples& samples_;
};

/// The number of source tokens before the last run of learned ones; at least one.
int64_t prompt_length(const data::Sample& sample);

}  // namespace trainer::batching
