#pragma once

#include "models/nn/linear.h"
#include "models/t5/config.h"

namespace trainer::models::t5 {

/// T5's attention: no biases, no scaling; self-attention adds a relative position bias, which block 0 of a stack owns.
class T5Attention : public nn::Module {
 public:
  enum Kind { kEncoderSelf, kDecoderSelf, kCross };
  T5Attention(const T5Config& config, Kind kind, bool owns_position_bias, int64_t block);

  /// x [Tq, D], position_bias [distances, H] (undefined: none), memory [Tk, D] (cross-attention only) → [Tq, D], and
  /// the position_bias used (the layer's own if it owns one).
  nn::Tensors operator()(const at::Tensor& x, const at::Tensor& position_bias, const at::Tensor& memory,
                         const nn::Pass& pass);

 protected:
  nn::Tensors forward(const nn::Tensors& inputs, const nn::Pass& pass) override;

 private:
  /// The bias of the distances -(length - 1) … length - 1: [2 length - 1, H].
  at::Tensor own_position_bias(const nn::Pass& pass);
  at::Tensor attend(const at::Tensor& x, const at::Tensor& position_bias, const at::Tensor& memory,
                    const nn::Pass& pass);
  at::Tensor attend_decoding(const at::Tensor& x, const at::Tensor& position_bias, const at::Tensor& memory,
                             const nn::Pass& pass);

  T5Config config_;
  Kind kind_;
  int64_t block_;
  nn::Slot<nn::Linear> q_, k_, v_, o_;
  std::optional<nn::Slot<nn::Embedding>> relative_attention_bias_;
};

}  // namespace trainer::models::t5
