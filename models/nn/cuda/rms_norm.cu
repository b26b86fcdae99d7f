#include <stdexcept>
#include <type_traits>

#include "models/nn/cuda/elements.h"
#include "models/nn/cuda/kernels.h"

namespace trainer::nn::cuda {
namespace {

/// A row of at most this many elements is the work of one warp, a wider one of a block.
constexpr int64_t kNarrow = 1024;

/// Where a thread works: kPerRow threads share a row.
template <unsigned kPerRow>
struct Place {
  int64_t row = int64_t{blockIdx.x} * (kThreads / kPerRow) + threadIdx.x / kPerRow;
  int64_t thread = threadIdx.x % kPerRow;
};

/// The sum over the threads of a row, on each of them. To be called once in a kernel.
template <unsigned kPerRow>
__device__ inline float summed_over_row(float x) {
  for (unsigned apart = kWarp / 2; apart > 0; apart /= 2) x += __shfl_xor_sync(kWholeWarp, x, apart);
  if constexpr (kPerRow > kWarp) {
    TRAINER_SHARED(float, sums, kThreads / kWarp);
    if (threadIdx.x % kWarp == 0) sums[threadIdx.x / kWarp] = x;
    __syncthreads();
    x = 0;
    for (unsigned warp = 0; warp < kThreads / kWarp; ++warp) x += sums[warp];
  }
  return x;
}

/// The nearest value of type T.
template <class T>
__device__ inline float rounded(float x) {
  T there;
  assign(there, x);
  return to_float(there);
}

/// The second time that a row is read, it is in a cache. A thread has N neighboring elements.
template <class T, class Out, int N, unsigned kPerRow>
__global__ void __launch_bounds__(kThreads)
    norm_rows(const T* x, const float* weight, float eps, bool twice, int64_t rows, int64_t width, Out* out,
              Out* normalized, float* scales) {
  const Place<kPerRow> at;
  if (at.row >= rows) return;
  const T* const from = x + at.row * width;
  float squares = 0;
  for (int64_t i = at.thread * N; i < width; i += kPerRow * N) {
    const Floats<N> part = load<N>(from + i);
    for (int j = 0; j < N; ++j) squares += part.x[j] * part.x[j];
  }
  const float scale = 1.0F / sqrtf(summed_over_row<kPerRow>(squares) / static_cast<float>(width) + eps);
  if (at.thread == 0) scales[at.row] = scale;
  for (int64_t i = at.thread * N; i < width; i += kPerRow * N) {
    Floats<N> part = load<N>(from + i);
    const Floats<N> w = load<N>(weight + i);
    for (int j = 0; j < N; ++j) part.x[j] *= scale;
    if (normalized != nullptr) store<N>(normalized + at.row * width + i, part);
    for (int j = 0; j < N; ++j) part.x[j] = (twice ? rounded<Out>(part.x[j]) : part.x[j]) * w.x[j];
    store<N>(out + at.row * width + i, part);
  }
}

/// dx = base + s (w g - n mean(w g n)), where n, the normalized row, is x times s, or x itself if it `is_normalized`.
template <class T, class In, class Grad, int N, unsigned kPerRow>
__global__ void __launch_bounds__(kThreads)
    norm_slope_rows(const Grad* grad, const In* x, bool is_normalized, const T* base, const float* weight,
                    const float* scales, int64_t rows, int64_t width, T* out) {
  const Place<kPerRow> at;
  if (at.row >= rows) return;
  const int64_t begin = at.row * width;
  float dot = 0;
  for (int64_t i = at.thread * N; i < width; i += kPerRow * N) {
    const Floats<N> g = load<N>(grad + begin + i), w = load<N>(weight + i), part = load<N>(x + begin + i);
    for (int j = 0; j < N; ++j) dot += g.x[j] * w.x[j] * part.x[j];
  }
  const float s = scales[at.row], to_normalized = is_normalized ? 1 : s;
  const float pull = summed_over_row<kPerRow>(dot) * to_normalized * to_normalized / static_cast<float>(width);
  for (int64_t i = at.thread * N; i < width; i += kPerRow * N) {
    const Floats<N> g = load<N>(grad + begin + i), w = load<N>(weight + i);
    Floats<N> part = load<N>(x + begin + i);
    for (int j = 0; j < N; ++j) part.x[j] = s * (g.x[j] * w.x[j] - part.x[j] * pull);
    if (base != nullptr) {
      const Floats<N> added = load<N>(base + begin + i);
      for (int j = 0; j < N; ++j) part.x[j] += added.x[j];
    }
    store<N>(out + begin + i, part);
  }
}

/// A thread sums a column over the rows of a part.
template <class T, class Grad>
__global__ void __launch_bounds__(kThreads) sum_columns(const Grad* grad, const T* x, const float* scales, int64_t rows,
                                                        int64_t width, int64_t per_part, float* parts) {
  const int64_t part = blockIdx.x, column = item_index();
  if (column >= width) return;
  const int64_t begin = part * per_part, end = begin + per_part < rows ? begin + per_part : rows;
  float sum = 0;
  for (int64_t row = begin; row < end; ++row)
    sum += to_float(grad[row * width + column]) * to_float(x[row * width + column]) *
           (scales != nullptr ? scales[row] : 1);
  parts[part * width + column] = sum;
}

template <unsigned kPerRow>
unsigned blocks_of(int64_t rows) {
  constexpr int64_t kRows = kThreads / kPerRow;
  return static_cast<unsigned>((rows + kRows - 1) / kRows);
}

/// Calls f with the Typed of both element types, of which one is fp32, or both are the same.
template <class F>
void with_types(ElementType a, ElementType b, const F& f) {
  with_type(a, [&](auto first) {
    using A = typename decltype(first)::type;
    if (a == b) return f(Typed<A>(), Typed<A>());
    if constexpr (std::is_same_v<A, float>)
      return b == ElementType::kHalf ? f(Typed<A>(), Typed<__half>()) : f(Typed<A>(), Typed<__nv_bfloat16>());
    if (b != ElementType::kFloat) throw std::runtime_error("norms do not convert between bf16 and fp16");
    return f(Typed<A>(), Typed<float>());
  });
}

/// Calls f(Count of neighboring elements, Count of threads of a row).
template <unsigned kValue>
struct Count {
  static constexpr unsigned value = kValue;
};
template <class F>
void with_counts(bool several, int64_t width, const F& f) {
  if (several && width <= kNarrow) return f(Count<kSeveral>(), Count<kWarp>());
  if (several) return f(Count<kSeveral>(), Count<kThreads>());
  if (width <= kNarrow) return f(Count<1>(), Count<kWarp>());
  return f(Count<1>(), Count<kThreads>());
}

}  // namespace

void rms_norm(ElementType x_type, const void* x, const float* weight, float eps, bool twice, ElementType out_type,
              int64_t rows, int64_t width, void* out, void* normalized, float* scales, void* stream) {
  if (rows == 0 || width == 0) return;
  with_types(x_type, out_type, [&](auto from, auto to) {
    using T = typename decltype(from)::type;
    using Out = typename decltype(to)::type;
    const auto* const in = static_cast<const T*>(x);
    auto *const there = static_cast<Out*>(out), *const plain = static_cast<Out*>(normalized);
    const bool several = width % kSeveral == 0 && least_run(in, weight, there, plain) == kSeveral;
    with_counts(several, width, [&](auto n, auto per_row) {
      launch(&norm_rows<T, Out, n.value, per_row.value>, blocks_of<per_row.value>(rows), kThreads, stream, in, weight,
             eps, twice, rows, width, there, plain, scales);
    });
  });
}

void rms_norm_backward(ElementType grad_type, const void* grad, ElementType x_type, const void* x,
                       const void* normalized, const void* base, const float* weight, const float* scales, int64_t rows,
                       int64_t width, void* out, void* stream) {
  if (rows == 0 || width == 0) return;
  with_types(x_type, grad_type, [&](auto of_x, auto of_grad) {
    using T = typename decltype(of_x)::type;
    using Grad = typename decltype(of_grad)::type;
    const auto* const g = static_cast<const Grad*>(grad);
    const auto* const added = static_cast<const T*>(base);
    auto* const there = static_cast<T*>(out);
    const auto run = [&](const auto* in) {
      using In = std::remove_cv_t<std::remove_pointer_t<decltype(in)>>;
      const bool several = width % kSeveral == 0 && least_run(g, in, added, weight, there) == kSeveral;
      with_counts(several, width, [&](auto n, auto per_row) {
        launch(&norm_slope_rows<T, In, Grad, n.value, per_row.value>, blocks_of<per_row.value>(rows), kThreads, stream,
               g, in, normalized != nullptr, added, weight, scales, rows, width, there);
      });
    };
    if (normalized != nullptr) return run(static_cast<const Grad*>(normalized));
    run(static_cast<const T*>(x));
  });
}

void rms_norm_weight_gradient(ElementType grad_type, const void* grad, ElementType x_type, const void* x,
                              const float* scales, int64_t rows, int64_t width, int64_t per_part, float* parts,
                              void* stream) {
  if (rows == 0 || width == 0) return;
  with_types(x_type, grad_type, [&](auto from, auto of_grad) {
    using T = typename decltype(from)::type;
    using Grad = typename decltype(of_grad)::type;
    launch(&sum_columns<T, Grad>, grid_of((rows + per_part - 1) / per_part, width), kThreads, stream,
           static_cast<const Grad*>(grad), static_cast<const T*>(x), scales, rows, width, per_part, parts);
  });
}

}  // namespace trainer::nn::cuda
