// Combines the LoRA adapters of a layer into one: PEFT's add_weighted_adapter.
#pragma once

#include <functional>
#include <vector>

#include <ATen/core/Tensor.h>

#include "engine/adapters/decomposition.h"
#include "engine/config/adapters/combination.h"

namespace trainer::adapters {

/// How the tensors of several adapters become one.
struct CombineRule {
  config::Combination how;
  double density = 1;              // in (0, 1]: the share of values that pruning keeps
  bool sign_by_frequency = false;  // the majority's sign: of the number of values; else of their sum
  /// A mask of zeros and ones for random pruning, of the shape of `like`, with this share of ones.
  std::function<at::Tensor(const at::Tensor& like, double density)> draw_mask;
};

/// The tensors combined with `weights`, one for each. All have the same shape. Sources: Yadav et al. 2023 (TIES), Yu et
/// al. 2023 (DARE); as in PEFT, signs are elected before the weights apply.
at::Tensor combine(std::vector<at::Tensor> tensors, const std::vector<double>& weights, const CombineRule& rule);

/// An adapter's A [r, in] and B [out, r] in a layer. It changes the layer's weight by scale * B A.
struct WeightedPair {
  LowRank pair;
  double weight = 1;  // in the combination
  double scale = 1;

  double factor() const { return weight * scale; }
};

/// A [rank, in] and B [out, rank] of the combined adapter, whose scale is 1. Rows and columns that the result doesn't
/// need are 0. With CombineRule::how.needs_equal_ranks(), the ranks of `pairs` must be equal.
LowRank combine(const std::vector<WeightedPair>& pairs, int64_t rank, const CombineRule& rule);

/// The squared Frobenius norms of the weighted sum of the products B A, and of its difference from `combined`.
struct SumError {
  double sum = 0, difference = 0;
};
SumError error_of(const LowRank& combined, const std::vector<WeightedPair>& pairs);

}  // namespace trainer::adapters
