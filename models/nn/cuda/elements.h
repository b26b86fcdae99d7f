// Elements of any type, read and written as fp32, several at a time.
#pragma once

#include <cstdint>

#include "models/nn/cuda/launch.h"
#include "models/nn/kernel_table.h"

namespace trainer::nn::cuda {

constexpr unsigned kThreads = 256;  // of a block
constexpr unsigned kWarp = 32, kWholeWarp = 0xFFFFFFFF;

__device__ inline float to_float(float x) {
  return x;
}
__device__ inline float to_float(__nv_bfloat16 x) {
  return __bfloat162float(x);
}
__device__ inline float to_float(__half x) {
  return __half2float(x);
}
__device__ inline void assign(float& to, float x) {
  to = x;
}
__device__ inline void assign(__nv_bfloat16& to, float x) {
  to = __float2bfloat16(x);
}
__device__ inline void assign(__half& to, float x) {
  to = __float2half(x);
}

/// N elements that are read or written with one instruction: their address is a multiple of their size.
template <class T, int N>
struct alignas(sizeof(T) * N) Pack {
  T elements[N];
};

template <int N>
struct Floats {
  float x[N];
};

template <int N, class T>
__device__ Floats<N> load(const T* from) {
  const Pack<T, N> pack = *reinterpret_cast<const Pack<T, N>*>(from);
  Floats<N> floats;
  for (int i = 0; i < N; ++i) floats.x[i] = to_float(pack.elements[i]);
  return floats;
}

template <int N, class T>
__device__ void store(T* to, const Floats<N>& floats) {
  Pack<T, N> pack;
  for (int i = 0; i < N; ++i) assign(pack.elements[i], floats.x[i]);
  *reinterpret_cast<Pack<T, N>*>(to) = pack;
}

/// Whether an address is a multiple of `bytes`, as null is.
inline bool is_aligned(const void* address, int64_t bytes) {
  return reinterpret_cast<uintptr_t>(address) % static_cast<uintptr_t>(bytes) == 0;
}

constexpr int kSeveral = 8;  // elements that a thread reads or writes together

/// How many elements from an address on can be read or written together: kSeveral, 2 or 1. From null on, there are
/// none.
template <class T>
int run_at(const T* address) {
  return is_aligned(address, kSeveral * sizeof(T)) ? kSeveral : is_aligned(address, 2 * sizeof(T)) ? 2 : 1;
}

/// The least run_at() of several addresses.
template <class... T>
int least_run(const T*... addresses) {
  int least = kSeveral;
  ((least = run_at(addresses) < least ? run_at(addresses) : least), ...);
  return least;
}

/// One block in x for every row, and as many in y as `items` threads need. The index of a thread's item: item_index().
inline dim3 grid_of(int64_t rows, int64_t items) {
  return {static_cast<unsigned>(rows), static_cast<unsigned>((items + kThreads - 1) / kThreads), 1};
}
__device__ inline int64_t item_index() {
  return int64_t{blockIdx.y} * kThreads + threadIdx.x;
}

template <class T>
struct Typed {
  using type = T;
};
/// Calls f with the Typed of an element type.
template <class F>
void with_type(ElementType type, const F& f) {
  switch (type) {
    case ElementType::kFloat:
      return f(Typed<float>());
    case ElementType::kBfloat16:
      return f(Typed<__nv_bfloat16>());
    case ElementType::kHalf:
      return f(Typed<__half>());
  }
}

}  // namespace trainer::nn::cuda
