// Products of small matrices inside larger ones, for kernels: on the calling thread, without autograd.
#pragma once

#include <cstdint>

#include "models/nn/bf16_kernels.h"

namespace trainer::nn {

/// A row-major matrix inside a larger one: element (r, c) is data[r * stride + c].
struct Matrix {
  const float* data;
  int64_t stride;
};

enum class Transposed { kNone, kFirst, kSecond };

/// c [m, n] = alpha * a b + beta * c over k terms, with `a` or `b` transposed; with beta 0, c is never read. Where
/// there are instructions for bf16, `parts` of its numbers may take the place of an fp32 number (Note [bf16 products]).
void gemm(Transposed which, int64_t m, int64_t n, int64_t k, float alpha, Matrix a, Matrix b, float beta, float* c,
          int64_t c_stride, int parts = kMostParts);

}  // namespace trainer::nn
