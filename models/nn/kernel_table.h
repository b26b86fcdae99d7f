// The kernels that a device's library offers to the layers: plain functions of addresses, without libtorch.
#pragma once

#include <cstdint>

#include "models/nn/activation.h"
#include "models/nn/four_bit_kernels.h"
#include "models/nn/philox.h"

namespace trainer::nn {

/// The type of a tensor's elements. Kernels compute in fp32.
enum class ElementType { kFloat, kBfloat16, kHalf };

/// Where the draws of each row begin (models/nn/dropout.h); nothing is dropped while `threshold` is 0.
struct RowDraws {
  const int64_t* sample_index = nullptr;  // [rows], on the device
  const int64_t* token = nullptr;         // [rows], on the device: the index in its sample
  PhiloxKey key{};
  uint32_t threshold = 0;
  float scale = 1.0F;
  int64_t first = 0;  // index of the first element
};

/// The scales of 4-bit blocks: of each one, in fp32 in front of its codes, or, doubly quantized, one byte there.
struct FourBitScales {
  const float* shared = nullptr;  // [blocks, 2], on the device; null: not doubly quantized
  float map[256]{};               // the scale of a block is map[its byte] * shared[block][0] + shared[block][1]
};

/// Addresses are the device's and tensors are contiguous; `width` is the number of elements of a row. A call enqueues
/// its kernel on `stream` and returns. Errors: std::runtime_error, with the vendor's message.
struct DeviceKernels {
  /// The stream on which libtorch runs its operators on device number `index`.
  void* (*current_stream)(int index);

  /// Whether each element is kept: bool [rows, width].
  void (*draw_mask)(const RowDraws& draws, int64_t rows, int64_t width, bool* kept, void* stream);

  /// out = residual + dropout(x), in one pass; `residual`, of out's type, may be null. One of the types is fp32, or
  /// both are the same. The backward pass draws the same mask again, so nothing is saved.
  void (*dropout)(ElementType x_type, const void* x, ElementType out_type, const void* residual, const RowDraws& draws,
                  int64_t rows, int64_t width, void* out, void* stream);

  /// out = x + magnitudes [rows] * u: u is uniform in (-1, 1), from one draw of 16 bits (models/nn/embedding_noise.h).
  void (*add_noise)(const float* x, const float* magnitudes, const RowDraws& draws, int64_t rows, int64_t width,
                    float* out, void* stream);

  /// x [rows, heads * 2 * pairs] rotated by table [rows, 2 * pairs] (models/nn/rope.h); `direction` -1 rotates back.
  void (*rotate)(ElementType type, const void* x, const float* table, float direction, int64_t rows, int64_t heads,
                 int64_t pairs, void* out, void* stream);

  /// out = dropout(act(gate) * up); `up` may be null.
  void (*activate)(ElementType type, Activation activation, const void* gate, const void* up, const RowDraws& draws,
                   int64_t rows, int64_t width, void* out, void* stream);
  /// The gradients of gate and up; `up` and `up_grad` may be null.
  void (*activate_backward)(ElementType type, Activation activation, const void* grad, const void* gate, const void* up,
                            const RowDraws& draws, int64_t rows, int64_t width, void* gate_grad, void* up_grad,
                            void* stream);

  /// out = x / sqrt(mean(x^2) + eps) * weight for each row; scales [rows]: 1 / sqrt(...). `twice`: rounded to the type
  /// of `out` before the weight too. One of the types is fp32, or both are the same. `normalized`: the same without the
  /// weight, of the type of `out`; may be null.
  void (*rms_norm)(ElementType x_type, const void* x, const float* weight, float eps, bool twice, ElementType out_type,
                   int64_t rows, int64_t width, void* out, void* normalized, float* scales, void* stream);
  /// The gradient of x, of its type, plus `base`, which may be null. One of `x` and `normalized` is null; the latter
  /// has the type of `grad`.
  void (*rms_norm_backward)(ElementType grad_type, const void* grad, ElementType x_type, const void* x,
                            const void* normalized, const void* base, const float* weight, const float* scales,
                            int64_t rows, int64_t width, void* out, void* stream);
  /// The gradient of the weight, as the sums over each `per_part` rows: parts [rows / per_part, rounded up; width].
  /// With null `scales`, x is normalized.
  void (*rms_norm_weight_gradient)(ElementType grad_type, const void* grad, ElementType x_type, const void* x,
                                   const float* scales, int64_t rows, int64_t width, int64_t per_part, float* parts,
                                   void* stream);

  /// For each row of logits, which are those of classes [begin, begin + width): the largest, the sum of exp(logit -
  /// largest), the label's logit (0 if it is elsewhere), and the sum of all, if `smooth`: sums [rows, 4].
  void (*cross_entropy_sums)(ElementType type, const void* logits, const int64_t* labels, int64_t begin, int64_t rows,
                             int64_t width, bool smooth, double* sums, void* stream);
  /// out = grad * (exp(logit - log_sum) - everywhere - (own at the label)); 0 in a row whose label is negative. grad
  /// [1], log_sum [rows]. `out` may be `logits`.
  void (*cross_entropy_gradient)(ElementType type, const void* logits, const int64_t* labels, const float* log_sum,
                                 const float* grad, float own, float everywhere, int64_t begin, int64_t rows,
                                 int64_t width, void* out, void* stream);

  /// `count` blocks of 64 values of 4 bits, the first of two in the high half of its byte: the code's value times the
  /// scale of the block, which lies in front of its 32 bytes of codes (models/nn/four_bit.h). Blocks whose scales have
  /// 4 bytes begin at a multiple of 4; `out` begins at a multiple of 16.
  void (*decode_four_bits)(const uint8_t* blocks, int64_t count, const FourBitCode& code, const FourBitScales& scales,
                           ElementType type, void* out, void* stream);
};

}  // namespace trainer::nn
