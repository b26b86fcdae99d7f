// What all matrix products on the CPU need: plain operands, and parts for several threads.
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>
#include <c10/util/FunctionRef.h>

#include "models/nn/tiled_gemm.h"

namespace trainer::nn {

/// Calls multiply(a, b, out), which computes out = alpha * a b + beta * out, so that out = alpha * a b + beta * added.
/// It is given operands with a stride of 1 each, and a contiguous `out` that shares no memory with them. `added` is
/// broadcast to `out`, and isn't read if beta is 0.
void with_plain_operands(
    const at::Tensor& a, const at::Tensor& b, const at::Tensor& added, float beta, const at::Tensor& out,
    c10::function_ref<void(const at::Tensor& a, const at::Tensor& b, const at::Tensor& out)> multiply);

/// `x` with a stride of 1.
at::Tensor with_contiguous_side(const at::Tensor& x);

struct Extent {
  int64_t begin, end;
  int64_t size() const { return end - begin; }
};

/// Calls multiply(rows, columns) for the parts of an [m, n] product of k terms, on libtorch's threads. Rows and columns
/// are split at multiples of their units.
void for_each_part(int64_t m, int64_t n, int64_t k, int64_t row_unit, int64_t column_unit,
                   c10::function_ref<void(Extent rows, Extent columns)> multiply);

/// How many of libtorch's threads `operations` multiplications are worth.
int64_t threads_for(int64_t operations);

template <class T>
Strided<T> strided(const at::Tensor& x) {
  return {x.const_data_ptr<T>(), x.stride(0), x.stride(1)};
}

}  // namespace trainer::nn
