// The table of CUDA kernels. Each function is described in models/nn/kernel_table.h.
#pragma once

#include "models/nn/kernel_table.h"

namespace trainer::nn::cuda {

void draw_mask(const RowDraws& draws, int64_t rows, int64_t width, bool* kept, void* stream);
void dropout(ElementType x_type, const void* x, ElementType out_type, const void* residual, const RowDraws& draws,
             int64_t rows, int64_t width, void* out, void* stream);
void add_noise(const float* x, const float* magnitudes, const RowDraws& draws, int64_t rows, int64_t width, float* out,
               void* stream);
void rotate(ElementType type, const void* x, const float* table, float direction, int64_t rows, int64_t heads,
            int64_t pairs, void* out, void* stream);
void activate(ElementType type, Activation activation, const void* gate, const void* up, const RowDraws& draws,
              int64_t rows, int64_t width, void* out, void* stream);
void activate_backward(ElementType type, Activation activation, const void* grad, const void* gate, const void* up,
                       const RowDraws& draws, int64_t rows, int64_t width, void* gate_grad, void* up_grad,
                       void* stream);
void cross_entropy_sums(ElementType type, const void* logits, const int64_t* labels, int64_t begin, int64_t rows,
                        int64_t width, bool smooth, double* sums, void* stream);
void cross_entropy_gradient(ElementType type, const void* logits, const int64_t* labels, const float* log_sum,
                            const float* grad, float own, float everywhere, int64_t begin, int64_t rows, int64_t width,
                            void* out, void* stream);
void rms_norm(ElementType x_type, const void* x, const float* weight, float eps, bool twice, ElementType out_type,
              int64_t rows, int64_t width, void* out, void* normalized, float* scales, void* stream);
void rms_norm_backward(ElementType grad_type, const void* grad, ElementType x_type, const void* x,
                       const void* normalized, const void* base, const float* weight, const float* scales, int64_t rows,
                       int64_t width, void* out, void* stream);
void rms_norm_weight_gradient(ElementType grad_type, const void* grad, ElementType x_type, const void* x,
                              const float* scales, int64_t rows, int64_t width, int64_t per_part, float* parts,
                              void* stream);
void decode_four_bits(const uint8_t* blocks, int64_t count, const FourBitCode& code, const FourBitScales& scales,
                      ElementType type, void* out, void* stream);

inline DeviceKernels kernels(void* (*current_stream)(int index)) {
  return {current_stream,
          draw_mask,
          dropout,
          add_noise,
          rotate,
          activate,
          activate_backward,
          rms_norm,
          rms_norm_backward,
          rms_norm_weight_gradient,
          cross_entropy_sums,
          cross_entropy_gradient,
          decode_four_bits};
}

}  // namespace trainer::nn::cuda
