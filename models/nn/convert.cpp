#include "models/nn/convert.h"

#include "models/nn/kernel.h"
#include "models/nn/rounded.h"

namespace trainer::nn {
namespace {

template <class T>
inline __attribute__((always_inline)) void widen_each(const T* x, int64_t stride, int64_t rows, int64_t width,
                                                      float* out) {
  for (int64_t row = 0; row < rows; ++row, x += stride, out += width)
    for (int64_t i = 0; i < width; ++i) out[i] = static_cast<float>(x[i]);
}

template <class T>
inline __attribute__((always_inline)) void narrow_each(const float* x, int64_t rows, int64_t width, int64_t stride,
                                                       T* out) {
  for (int64_t row = 0; row < rows; ++row, x += width, out += stride)
    for (int64_t i = 0; i < width; ++i) out[i] = rounded<T>(x[i]);
}

}  // namespace

TRAINER_KERNEL void widen_rows(const c10::BFloat16* x, int64_t stride, int64_t rows, int64_t width, float* out) {
  widen_each(x, stride, rows, width, out);
}
TRAINER_KERNEL void widen_rows(const c10::Half* x, int64_t stride, int64_t rows, int64_t width, float* out) {
  widen_each(x, stride, rows, width, out);
}

TRAINER_KERNEL void narrow_rows(const float* x, int64_t rows, int64_t width, int64_t stride, c10::BFloat16* out) {
  narrow_each(x, rows, width, stride, out);
}
TRAINER_KERNEL void narrow_rows(const float* x, int64_t rows, int64_t width, int64_t stride, c10::Half* out) {
  narrow_each(x, rows, width, stride, out);
}

}  // namespace trainer::nn
