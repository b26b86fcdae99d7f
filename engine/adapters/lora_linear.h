#pragma once

#include "models/nn/linear.h"

namespace trainer::adapters {

struct LoraShape {
  int64_t r = 8;
  double scale = 1;    // lora_alpha / r, or lora_alpha / sqrt(r)
  double dropout = 0;  // on the adapter's input
  nn::Init a, b;
  bool subtracts_start = false;  // see Note [Decomposed start]
};

/// Whether the sum replaces the base's values, which saves a copy of them, and memory.
enum class BaseUse { kKeep, kOverwrite };

/// A linear layer plus a low-rank branch: y = x W^T + scale * dropout(x) A^T B^T.
/// A [r, in] and B [out, r] are trained in fp32; W is shared with the layer that this one replaces. Source: Hu et al.
/// 2021.
class LoraLinear : public nn::Linear {
 public:
  LoraLinear(const nn::Linear& base, const LoraShape& shape);

  const LoraShape& shape() const { return shape_; }
  const nn::ParameterPtr& a() const { return a_; }
  const nn::ParameterPtr& b() const { return b_; }
  /// The initial A and B; null unless the shape subtracts them.
  const nn::ParameterPtr& start_a() const { return start_a_; }
  const nn::ParameterPtr& start_b() const { return start_b_; }

 protected:
  at::Tensor project(const nn::Rows& x, const nn::Pass& pass) const override;

  /// The layer without the learned branch, bias included; x [T, in] in the compute dtype.
  at::Tensor base(const nn::Rows& x, const nn::Pass& pass) const;
  /// `base` [T, out] plus the learned branch.
  at::Tensor add_branch(const at::Tensor& base, const nn::Rows& x, const nn::DropoutRule& rule, const nn::Pass& pass,
                        BaseUse use = BaseUse::kKeep) const;
  nn::DropoutRule dropout(const nn::Pass& pass) const;

 private:
  LoraShape shape_;
  nn::ParameterPtr a_, b_, start_a_, start_b_;
};

/// scale * dropout(x) A^T B^T added to `base` [T, out]; x [T, in]. Saves x, the [T, r] product and the kept elements.
at::Tensor add_low_rank(const at::Tensor& base, const nn::Rows& x, const at::Tensor& a, const at::Tensor& b,
                        double scale, const nn::DropoutRule& rule, BaseUse use = BaseUse::kKeep);

}  // namespace trainer::adapters
