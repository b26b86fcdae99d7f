#include "models/nn/cuda/elements.h"
#include "models/nn/cuda/kernels.h"

namespace trainer::nn::cuda {
namespace {

/// A thread rotates N neighboring pairs of a head.
template <class T, int N>
__global__ void __launch_bounds__(kThreads)
    rotate_rows(const T* x, const float* table, float direction, int heads, int pairs, T* out) {
  const int64_t row = blockIdx.x, item = item_index(), items = pairs / N;
  if (item >= heads * items) return;
  const int head = static_cast<int>(item) / static_cast<int>(items);
  const int pair = static_cast<int>(item) % static_cast<int>(items) * N;
  const int64_t at = (row * heads + head) * 2 * pairs + pair;
  const Floats<N> first = load<N>(x + at), second = load<N>(x + at + pairs);
  const Floats<N> cosine = load<N>(table + row * 2 * pairs + pair),
                  sine = load<N>(table + (row * 2 + 1) * pairs + pair);
  Floats<N> low, high;
  for (int i = 0; i < N; ++i) {
    const float s = sine.x[i] * direction;
    low.x[i] = first.x[i] * cosine.x[i] - second.x[i] * s;
    high.x[i] = second.x[i] * cosine.x[i] + first.x[i] * s;
  }
  store<N>(out + at, low);
  store<N>(out + at + pairs, high);
}

template <class T, int N>
void rotate_by(const void* x, const float* table, float direction, int64_t rows, int64_t heads, int64_t pairs,
               void* out, void* stream) {
  launch(&rotate_rows<T, N>, grid_of(rows, heads * (pairs / N)), kThreads, stream, static_cast<const T*>(x), table,
         direction, static_cast<int>(heads), static_cast<int>(pairs), static_cast<T*>(out));
}

}  // namespace

void rotate(ElementType type, const void* x, const float* table, float direction, int64_t rows, int64_t heads,
            int64_t pairs, void* out, void* stream) {
  if (rows == 0 || heads == 0 || pairs == 0) return;
  with_type(type, [&](auto of) {
    using T = typename decltype(of)::type;
    constexpr int kBytes = 16, kPerThread = kBytes / sizeof(T);
    const bool aligned =
        is_aligned(x, kBytes) && is_aligned(out, kBytes) && is_aligned(table, kPerThread * sizeof(float));
    if (aligned && pairs % kPerThread == 0)
      rotate_by<T, kPerThread>(x, table, direction, rows, heads, pairs, out, stream);
    else
      rotate_by<T, 1>(x, table, direction, rows, heads, pairs, out, stream);
  });
}

}  // namespace trainer::nn::cuda
