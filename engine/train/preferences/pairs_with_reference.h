#pragma once

#include <memory>
#include <utility>

#include <ATen/core/Tensor.h>

#include "data/samples/samples.h"

namespace trainer::train {

/// Pairs that know the reference's log-probabilities of their texts.
class PairsWithReference : public data::Samples {
 public:
  /// `log_probs` [pairs, 2] fp64 on the CPU; NaN for pairs that are never read.
  PairsWithReference(std::shared_ptr<const data::Samples> pairs, at::Tensor log_probs)
      : pairs_(std::move(pairs)), log_probs_(std::move(log_probs)) {}

  int64_t size() const override { return pairs_->size(); }
  void read(int64_t index, data::Sample& sample) const override;
  data::Lengths lengths(int64_t index) const override { return pairs_->lengths(index); }
  data::SampleText text(int64_t index) const override { return pairs_->text(index); }
  std::vector<int64_t> sources() const override { return pairs_->sources(); }
  data::LabelKind label_kind() const override { return pairs_->label_kind(); }
  bool are_pairs() const override { return true; }
  bool ordered() const override { return pairs_->ordered(); }
  int64_t cut() const override { return pairs_->cut(); }

 private:
  std::shared_ptr<const data::Samples> pairs_;
  at::Tensor log_probs_;
};

}  // namespace trainer::train
