#pragma once

#include "models/t5/attention.h"

namespace trainer::models::t5 {

class T5LayerNorm : public nn::Module {
 public:
  T5LayerNorm(int64_t width, double eps);
  /// x [T, D] fp32 → the compute dtype.
  nn::Rows operator()(const nn::Rows& x, const nn::Pass& pass) { return with_input(x, pass)[0]; }
  /// The norm, and x for the layers beside it (nn::rms_norm_and_input).
  nn::RowsList with_input(const nn::Rows& x, const nn::Pass& pass);

 protected:
  nn::RowsList forward(const nn::RowsList& inputs, const nn::Pass& pass) override;

 private:
  double eps_;
};

/// x + dropout(attention(norm(x))): "T5LayerSelfAttention" or "T5LayerCrossAttention".
class T5LayerAttention : public nn::Module {
 public:
  T5LayerAttention(const T5Config& config, T5Attention::Kind kind, bool owns_position_bias, int64_t block);
  /// Inputs and outputs as for T5Attention.
  nn::RowsList operator()(const nn::Rows& x, const nn::Rows& position_bias, const nn::Rows& memory,
                          const nn::Pass& pass);

 protected:
  nn::RowsList forward(const nn::RowsList& inputs, const nn::Pass& pass) override;

 private:
  double dropout_;
  nn::Slot<T5Attention> attention_;
  nn::Slot<T5LayerNorm> layer_norm_;
};

/// wo(dropout(act(wi x))), or wo(dropout(act(wi_0 x) * wi_1 x)) when gated.
class T5DenseReluDense : public nn::Module {
 public:
  explicit T5DenseReluDense(const T5Config& config);
  nn::Rows operator()(const nn::Rows& x, const nn::Pass& pass) { return Module::operator()({x}, pass)[0]; }

 protected:
  nn::RowsList forward(const nn::RowsList& inputs, const nn::Pass& pass) override;

 private:
  nn::Activation activation_;
  double dropout_;
  nn::Slot<nn::Linear> wi_;  // wi, or wi_0 when gated
  std::optional<nn::Slot<nn::Linear>> up_;
  nn::Slot<nn::Linear> wo_;
};

/// x + dropout(feed-forward(norm(x))).
class T5LayerFF : public nn::Module {
 public:
  explicit T5LayerFF(const T5Config& config);
  nn::Rows operator()(const nn::Rows& x, const nn::Pass& pass) { return Module::operator()({x}, pass)[0]; }

 protected:
  nn::RowsList forward(const nn::RowsList& inputs, const nn::Pass& pass) override;

 private:
  double dropout_;
  nn::Slot<T5DenseReluDense> feed_forward_;
  nn::Slot<T5LayerNorm> layer_norm_;
};

/// One encoder or decoder block. Inputs: x [T, D] fp32, the position bias (undefined for block 0, which computes it),
/// and for a decoder the encoder's output. Outputs: x and the position bias.
class T5Block : public nn::Module {
 public:
  T5Block(const T5Config& config, bool decoder, int64_t index);

 protected:
  nn::RowsList forward(const nn::RowsList& inputs, const nn::Pass& pass) override;

 private:
  nn::Slot<T5LayerAttention> self_attention_;
  std::optional<nn::Slot<T5LayerAttention>> cross_attention_;
  nn::Slot<T5LayerFF> feed_forward_;
};

}  // namespace trainer::models::t5
