#include <cfloat>

#include "models/nn/cuda/elements.h"
#include "models/nn/cuda/kernels.h"

namespace trainer::nn::cuda {
namespace {

/// The sum of exp(x - largest) over the logits so far, and of x. Source: Milakov and Gimelshein, Online normalizer
/// calculation for softmax, 2018.
struct OnlineSum {
  float largest = -FLT_MAX;
  double exp = 0, all = 0;
};

__device__ inline OnlineSum merged(const OnlineSum& a, const OnlineSum& b) {
  const float largest = a.largest > b.largest ? a.largest : b.largest;
  return {largest, a.exp * expf(a.largest - largest) + b.exp * expf(b.largest - largest), a.all + b.all};
}

/// Of all lanes of a warp, on every lane.
__device__ inline OnlineSum merged_over_warp(OnlineSum sum) {
  for (int apart = kWarp / 2; apart > 0; apart /= 2)
    sum = merged(sum, {__shfl_xor_sync(kWholeWarp, sum.largest, apart), __shfl_xor_sync(kWholeWarp, sum.exp, apart),
                       __shfl_xor_sync(kWholeWarp, sum.all, apart)});
  return sum;
}

/// A thread sums its logits of a row in fp32; fp64 is used between threads.
template <class T, bool kSmooth>
__device__ OnlineSum sum_of_thread(const T* logits, int64_t width) {
  float largest = -FLT_MAX, exp = 0, all = 0;
  for (int64_t i = threadIdx.x; i < width; i += kThreads) {
    const float x = to_float(logits[i]);
    if (x > largest) {
      exp = exp * expf(largest - x) + 1;
      largest = x;
    } else {
      exp += expf(x - largest);
    }
    if (kSmooth) all += x;
  }
  return {largest, exp, all};
}

/// One block per row.
template <class T, bool kSmooth>
__global__ void __launch_bounds__(kThreads)
    sum_rows(const T* logits, const int64_t* labels, int64_t begin, int64_t width, double* sums) {
  TRAINER_SHARED(float, largest, kThreads / kWarp);
  TRAINER_SHARED(double, exp, kThreads / kWarp);
  TRAINER_SHARED(double, all, kThreads / kWarp);
  const int64_t row = blockIdx.x;
  const unsigned warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  OnlineSum sum = merged_over_warp(sum_of_thread<T, kSmooth>(logits + row * width, width));
  if (lane == 0) {
    largest[warp] = sum.largest;
    exp[warp] = sum.exp;
    all[warp] = sum.all;
  }
  __syncthreads();
  if (warp > 0) return;
  sum = OnlineSum();
  if (lane < kThreads / kWarp) sum = {largest[lane], exp[lane], all[lane]};
  sum = merged_over_warp(sum);
  if (lane > 0) return;
  const int64_t label = labels[row] - begin;
  sums[row * 4] = sum.largest;
  sums[row * 4 + 1] = sum.exp;
  sums[row * 4 + 2] = label >= 0 && label < width ? to_float(logits[row * width + label]) : 0.0F;
  sums[row * 4 + 3] = sum.all;
}

/// The gradient of a row's loss, times `scale`.
struct Slope {
  int64_t label, begin;
  float log_sum, scale, own, everywhere;

  __device__ float at(int64_t element, float logit) const {
    if (label < 0) return 0;  // also where the logit is infinite
    const float slope = expf(logit - log_sum) - everywhere;
    return scale * (element == label - begin ? slope - own : slope);
  }
};

/// A thread has N neighboring logits.
template <class T, int N>
__global__ void __launch_bounds__(kThreads)
    slope_rows(const T* logits, const int64_t* labels, const float* log_sum, const float* grad, float own,
               float everywhere, int64_t begin, int64_t width, T* out) {
  const int64_t row = blockIdx.x, element = item_index() * N;
  if (element >= width) return;
  const Slope slope{labels[row], begin, log_sum[row], *grad, own, everywhere};
  Floats<N> x = load<N>(logits + row * width + element);
  for (int i = 0; i < N; ++i) x.x[i] = slope.at(element + i, x.x[i]);
  store<N>(out + row * width + element, x);
}

}  // namespace

void cross_entropy_sums(ElementType type, const void* logits, const int64_t* labels, int64_t begin, int64_t rows,
                        int64_t width, bool smooth, double* sums, void* stream) {
  if (rows == 0) return;
  with_type(type, [&](auto of) {
    using T = typename decltype(of)::type;
    auto* const kernel = smooth ? &sum_rows<T, true> : &sum_rows<T, false>;
    launch(kernel, static_cast<unsigned>(rows), kThreads, stream, static_cast<const T*>(logits), labels, begin, width,
           sums);
  });
}

void cross_entropy_gradient(ElementType type, const void* logits, const int64_t* labels, const float* log_sum,
                            const float* grad, float own, float everywhere, int64_t begin, int64_t rows, int64_t width,
                            void* out, void* stream) {
  if (rows == 0 || width == 0) return;
  with_type(type, [&](auto of) {
    using T = typename decltype(of)::type;
    constexpr int kBytes = 16, kPerThread = kBytes / sizeof(T);
    const bool several = is_aligned(logits, kBytes) && is_aligned(out, kBytes) && width % kPerThread == 0;
    auto* const kernel = several ? &slope_rows<T, kPerThread> : &slope_rows<T, 1>;
    launch(kernel, grid_of(rows, several ? width / kPerThread : width), kThreads, stream, static_cast<const T*>(logits),
           labels, log_sum, grad, own, everywhere, begin, width, static_cast<T*>(out));
  });
}

}  // namespace trainer::nn::cuda
