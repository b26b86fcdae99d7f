#include "models/nn/half_products.h"

#include <algorithm>
#include <vector>

#include <ATen/ops/empty.h>

#include "models/nn/bf16_kernels.h"
#include "models/nn/convert.h"
#include "models/nn/gemm.h"
#include "models/nn/kernel.h"
#include "models/nn/parallel.h"
#include "models/nn/rounded.h"

namespace trainer::nn {
namespace {

// Of a block. Each widened value takes part in some 1,000 operations, and the scratch memory of a thread is 5 MiB.
constexpr int64_t kRows = 512, kColumns = 512, kTerms = 1024;

/// out = alpha * sums + beta * added, rounded once. `added` may be null, or `out`.
template <class T>
inline __attribute__((always_inline)) void round_row(const float* sums, float alpha, const T* added, float beta,
                                                     int64_t n, T* out) {
  if (added == nullptr)
    for (int64_t i = 0; i < n; ++i) out[i] = rounded<T>(alpha * sums[i]);
  else
    for (int64_t i = 0; i < n; ++i) out[i] = rounded<T>(alpha * sums[i] + beta * static_cast<float>(added[i]));
}
TRAINER_KERNEL void round_values(const float* sums, float alpha, const at::BFloat16* added, float beta, int64_t n,
                                 at::BFloat16* out) {
  round_row(sums, alpha, added, beta, n, out);
}
TRAINER_KERNEL void round_values(const float* sums, float alpha, const at::Half* added, float beta, int64_t n,
                                 at::Half* out) {
  round_row(sums, alpha, added, beta, n, out);
}

/// A matrix whose rows or columns are contiguous.
template <class T>
struct Operand {
  const T* data;
  int64_t stride;
  bool transposed;  // the columns are contiguous

  explicit Operand(const at::Tensor& x)
      : data(x.const_data_ptr<T>()),
        stride(x.stride(1) == 1 ? x.stride(0) : x.stride(1)),
        transposed(x.stride(1) != 1) {}

  /// Widens the block of `rows` x `columns` from (row, column) on, in the order of memory. The result's stride is
  /// that of the order.
  Matrix widened(int64_t row, int64_t column, int64_t rows, int64_t columns, std::vector<float>& to) const {
    if (transposed) {
      std::swap(row, column);
      std::swap(rows, columns);
    }
    to.resize(std::max(to.size(), static_cast<size_t>(rows * columns)));
    parallel_for(0, rows, std::max<int64_t>(1, 32768 / columns), [&](int64_t first, int64_t last) {
      widen_rows(data + (row + first) * stride + column, stride, last - first, columns, to.data() + first * columns);
    });
    return {to.data(), columns};
  }
};

bool has_contiguous_side(const at::Tensor& x) {
  return x.stride(0) == 1 || x.stride(1) == 1;
}

/// A thread's memory for blocks, kept for the next product.
struct Scratch {
  std::vector<float> a, b, sums;
};

template <class T>
void multiply(const at::Tensor& tensor_a, const at::Tensor& tensor_b, const at::Tensor& added, float beta, float alpha,
              const at::Tensor& out) {
  thread_local Scratch scratch;
  const Operand<T> a(tensor_a), b(tensor_b);
  const auto which = a.transposed ? Transposed::kFirst : b.transposed ? Transposed::kSecond : Transposed::kNone;
  const int64_t m = tensor_a.size(0), k = tensor_a.size(1), n = tensor_b.size(1), grain = 32768 / kColumns;
  for (int64_t column = 0; column < n; column += kColumns) {
    for (int64_t row = 0; row < m; row += kRows) {
      const int64_t rows = std::min(kRows, m - row), columns = std::min(kColumns, n - column);
      scratch.sums.assign(rows * columns, 0);
      float* const sums = scratch.sums.data();
      for (int64_t term = 0; term < k; term += kTerms) {
        const int64_t terms = std::min(kTerms, k - term);
        const Matrix wide_a = a.widened(row, term, rows, terms, scratch.a),
                     wide_b = b.widened(term, column, terms, columns, scratch.b);
        gemm(which, rows, columns, terms, 1, wide_a, wide_b, 1, sums, columns);
      }
      parallel_for(row, row + rows, grain, [&](int64_t first, int64_t last) {
        for (int64_t r = first; r < last; ++r)
          round_values(sums + (r - row) * columns, alpha,
                       beta != 0 ? added.const_data_ptr<T>() + r * added.stride(0) + column : nullptr, beta, columns,
                       out.data_ptr<T>() + r * out.stride(0) + column);
      });
    }
  }
}

}  // namespace

// Where libtorch multiplies such matrices more slowly than fp32: in a plain loop, or by oneDNN, to which it hands bf16
// from AVX-512 on.
bool widens_products(at::ScalarType type) {
#if defined(__x86_64__)
  static const bool in_a_loop =
      !__builtin_cpu_supports("avx512bw") || !__builtin_cpu_supports("avx512vl") || !__builtin_cpu_supports("avx512dq");
  static const bool bf16 = in_a_loop || (__builtin_cpu_is("intel") && !has_amx());
  static const bool fp16 = !__builtin_cpu_supports("avx512fp16");
  return (type == at::kBFloat16 && bf16) || (type == at::kHalf && fp16);
#else
  (void)type;
  return false;
#endif
}

bool has_half_product(const at::Tensor& a, const at::Tensor& b) {
  // For a single row, libtorch's loop reads the matrix only once.
  return widens_products(a.scalar_type()) && a.size(0) > 1 && b.size(1) > 1 && a.size(1) > 1;
}

void half_product(const at::Tensor& a, const at::Tensor& b, const at::Tensor& added, float beta, float alpha,
                  const at::Tensor& out) {
  if (out.stride(1) != 1) {
    const at::Tensor rows = at::empty(out.sizes(), out.options());
    half_product(a, b, added, beta, alpha, rows);
    out.copy_(rows);
    return;
  }
  at::Tensor addend;
  if (beta != 0) addend = added.expand(out.sizes());
  if (beta != 0 && addend.stride(1) != 1) addend = addend.contiguous();
  at::Tensor first = has_contiguous_side(a) ? a : a.contiguous();
  const at::Tensor second = has_contiguous_side(b) ? b : b.contiguous();
  if (first.stride(1) != 1 && second.stride(1) != 1) first = first.contiguous();  // gemm() transposes only one
  if (out.scalar_type() == at::kBFloat16)
    multiply<at::BFloat16>(first, second, addend, beta, alpha, out);
  else
    multiply<at::Half>(first, second, addend, beta, alpha, out);
}

}  // namespace trainer::nn
