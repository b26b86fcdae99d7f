#pragma once

#include "models/nn/linear.h"
#include "models/nn/prefix.h"
#include "models/t5/config.h"

namespace trainer::models::t5 {

/// T5's attention: no biases, no scaling; self-attention adds a relative position bias, which block 0 of a stack owns.
class T5Attention : public nn::Module {
 public:
  enum Kind { kEncoderSelf, kDecoderSelf, kCross };
  T5Attention(const T5Config& config, Kind kind, bool owns_position_bias, int64_t block);

  /// x [Tq, D], position_bias [distances, H] (undefined: none), memory [Tk, D] (cross-attention only) → [Tq, D], and
  /// the position_bias used (the layer's own if it owns one).
  nn::RowsList operator()(const nn::Rows& x, const nn::Rows& position_bias, const nn::Rows& memory,
                          const nn::Pass& pass);

 protected:
  nn::RowsList forward(const nn::RowsList& inputs, const nn::Pass& pass) override;

 private:
  /// The bias of the distances -(length - 1) … length - 1: [2 length - 1, H].
  nn::Rows own_position_bias(const nn::Layout& rows, const nn::Pass& pass);
  nn::Rows attend(const nn::Rows& x, const at::Tensor& position_bias, const nn::Rows& memory, const nn::Pass& pass);
  nn::Rows attend_decoding(const nn::Rows& x, const at::Tensor& position_bias, const nn::Rows& memory,
                           const nn::Pass& pass);
  nn::KeysAndValues source_rows(const nn::Rows& memory, const nn::Pass& pass);

  T5Config config_;
  Kind kind_;
  int64_t block_;
  nn::Slot<nn::Linear> q_, k_, v_, o_;
  std::optional<nn::Slot<nn::Embedding>> relative_attention_bias_;
};

}  // namespace trainer::models::t5
