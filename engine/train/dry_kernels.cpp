#include "engine/train/dry_kernels.h"

#include "engine/dist/dry_trace.h"

namespace trainer::train {
namespace {

using nn::ElementType;
using nn::RowDraws;

int64_t size_of(ElementType type) {
  return type == ElementType::kFloat ? 4 : 2;
}

void report(const char* name, int64_t bytes) {
  dist::record(dist::DryOperator{.name = name, .bytes = bytes});
}

void draw_mask(const RowDraws&, int64_t rows, int64_t width, bool*, void*) {
  report("trainer::draw_mask", rows * width);
}

void dropout(ElementType x_type, const void*, ElementType out_type, const void* residual, const RowDraws&, int64_t rows,
             int64_t width, void*, void*) {
  report("trainer::dropout", rows * width * (size_of(x_type) + size_of(out_type) * (residual != nullptr ? 2 : 1)));
}

void add_noise(const float*, const float*, const RowDraws&, int64_t rows, int64_t width, float*, void*) {
  report("trainer::add_noise", rows * width * 2 * int64_t{sizeof(float)});
}

void rotate(ElementType type, const void*, const float*, float, int64_t rows, int64_t heads, int64_t pairs, void*,
            void*) {
  report("trainer::rotate", rows * 2 * pairs * (2 * heads * size_of(type) + int64_t{sizeof(float)}));
}

void activate(ElementType type, nn::Activation, const void*, const void* up, const RowDraws&, int64_t rows,
              int64_t width, void*, void*) {
  report("trainer::activate", rows * width * size_of(type) * (up != nullptr ? 3 : 2));
}

void activate_backward(ElementType type, nn::Activation, const void*, const void*, const void* up, const RowDraws&,
                       int64_t rows, int64_t width, void*, void*, void*) {
  report("trainer::activate_backward", rows * width * size_of(type) * (up != nullptr ? 5 : 3));
}

void rms_norm(ElementType x_type, const void*, const float*, float, bool, ElementType out_type, int64_t rows,
              int64_t width, void*, void* normalized, float*, void*) {
  report("trainer::rms_norm", rows * width * (size_of(x_type) + size_of(out_type) * (normalized != nullptr ? 2 : 1)));
}

void rms_norm_backward(ElementType grad_type, const void*, ElementType x_type, const void*, const void* normalized,
                       const void* base, const float*, const float*, int64_t rows, int64_t width, void*, void*) {
  const int64_t in = normalized != nullptr ? size_of(grad_type) : size_of(x_type);
  report("trainer::rms_norm_backward",
         rows * width * (size_of(grad_type) + in + size_of(x_type) * (base != nullptr ? 2 : 1)));
}

void rms_norm_weight_gradient(ElementType grad_type, const void*, ElementType x_type, const void*, const float*,
                              int64_t rows, int64_t width, int64_t, float*, void*) {
  report("trainer::rms_norm_weight_gradient", rows * width * (size_of(grad_type) + size_of(x_type)));
}

void cross_entropy_sums(ElementType type, const void*, const int64_t*, int64_t, int64_t rows, int64_t width, bool,
                        double*, void*) {
  report("trainer::cross_entropy_sums", rows * (width * size_of(type) + 4 * int64_t{sizeof(double)}));
}

void cross_entropy_gradient(ElementType type, const void*, const int64_t*, const float*, const float*, float, float,
                            int64_t, int64_t rows, int64_t width, void*, void*) {
  report("trainer::cross_entropy_gradient", 2 * rows * width * size_of(type));
}

void decode_four_bits(const uint8_t*, int64_t count, const nn::FourBitCode&, const nn::FourBitScales& scales,
                      ElementType type, void*, void*) {
  constexpr int64_t kValues = 64;
  const int64_t scale = scales.shared != nullptr ? 1 : int64_t{sizeof(float)};
  report("trainer::decode_four_bits", count * (kValues / 2 + scale + kValues * size_of(type)));
}

}  // namespace

const nn::DeviceKernels& dry_kernels() {
  static const nn::DeviceKernels kKernels{.current_stream = [](int) -> void* { return nullptr; },
                                          .draw_mask = draw_mask,
                                          .dropout = dropout,
                                          .add_noise = add_noise,
                                          .rotate = rotate,
                                          .activate = activate,
                                          .activate_backward = activate_backward,
                                          .rms_norm = rms_norm,
                                          .rms_norm_backward = rms_norm_backward,
                                          .rms_norm_weight_gradient = rms_norm_weight_gradient,
                                          .cross_entropy_sums = cross_entropy_sums,
                                          .cross_entropy_gradient = cross_entropy_gradient,
                                          .decode_four_bits = decode_four_bits};
  return kKernels;
}

}  // namespace trainer::train
