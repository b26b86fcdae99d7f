#pragma once

#include "data/samples.h"

namespace trainer::batching {

/// What stands before the reply that is learnt last in a causal sample: what a model is given to continue.
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

/// How many tokens of the source stand before the last stretch of learnt ones; at least one.
int64_t prompt_length(const data::Sample& sample);

}  // namespace trainer::batching
