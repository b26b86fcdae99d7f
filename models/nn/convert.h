// Between fp32 and narrower numbers. bf16 is rounded as rounded() does.
#pragma once

#include <algorithm>
#include <cstdint>

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

namespace trainer::nn {

/// Rows of `width` numbers, which begin `stride` numbers apart in `x` and follow each other in `out`.
void widen_rows(const c10::BFloat16* x, int64_t stride, int64_t rows, int64_t width, float* out);
void widen_rows(const c10::Half* x, int64_t stride, int64_t rows, int64_t width, float* out);

/// The other way: they follow each other in `x` and begin `stride` numbers apart in `out`.
void narrow_rows(const float* x, int64_t rows, int64_t width, int64_t stride, c10::BFloat16* out);
void narrow_rows(const float* x, int64_t rows, int64_t width, int64_t stride, c10::Half* out);

template <class T>
void widen(const T* x, int64_t n, float* out) {
  if constexpr (sizeof(T) == sizeof(c10::Half))
    widen_rows(x, n, 1, n, out);
  else
    std::transform(x, x + n, out, [](T value) { return static_cast<float>(value); });
}
template <class T>
void narrow(const float* x, int64_t n, T* out) {
  if constexpr (sizeof(T) == sizeof(c10::Half))
    narrow_rows(x, 1, n, n, out);
  else
    std::copy_n(x, n, out);
}

}  // namespace trainer::nn
