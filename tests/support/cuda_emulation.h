// Runs CUDA kernels on the CPU. A test includes this header and then the text of a .cu file (models/nn/cuda). Blocks
// run one after another; the threads of a block take turns, and change at barriers and warp intrinsics. Errors are
// EmulationError: a barrier that not all threads of a block reach, or at different lines; a warp intrinsic that not all
// lanes reach; reading shared memory that was not written, and races on it; a launch beyond a GPU's limits. Other
// memory is checked by the address sanitizer.
#pragma once

#define TRAINER_CUDA_EMULATION 1

#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <stdexcept>
#include <type_traits>

#include "tests/support/cuda_emulation_types.h"

#define __global__
#define __device__
#define __host__
#define __grid_constant__
#define __launch_bounds__(...)

namespace trainer::testing::emulation {

struct EmulationError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A line of a kernel.
struct Place {
  const char* file;
  int line;
  bool operator==(const Place& other) const { return line == other.line && std::strcmp(file, other.file) == 0; }
};

/// Runs `thread` for every thread of a grid. Errors: those of the first thread that fails.
void run_grid(dim3 grid, dim3 block, const std::function<void()>& thread);

/// The dimensions and indices of the thread that runs.
struct Indices {
  dim3 grid, block, block_index, thread_index;
};
const Indices& indices();

/// When a thread accessed shared memory: two accesses of different threads are ordered by a barrier between them.
struct Moment {
  uint64_t block = 0;    // number of the block, over all launches; 0: never
  uint64_t barrier = 0;  // barriers of the block so far
  uint64_t warp_barrier = 0;
  unsigned thread = 0;
};
Moment now();
/// Whether nothing orders `earlier` before the access of the running thread.
bool races(const Moment& earlier);
[[noreturn]] void fail(const std::string& what);

void sync_threads(Place place);
void sync_warp(unsigned mask, Place place);
/// The values that the 32 lanes of the warp give; `mask` must name all of them.
const uint64_t* exchange(unsigned mask, uint64_t value, Place place);
unsigned lane();
unsigned lanes();  // of the warp: fewer than 32 in the last one of a block

template <class T>
uint64_t to_bits(T value) {
  static_assert(sizeof(T) <= sizeof(uint64_t) && std::is_trivially_copyable_v<T>);
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  return bits;
}

/// The value of another lane. Errors: there is no such lane.
template <class T>
T value_of(const uint64_t* values, unsigned from) {
  if (from >= lanes()) fail("a warp intrinsic reads lane " + std::to_string(from));
  T value;
  std::memcpy(&value, values + from, sizeof value);
  return value;
}

/// An element of shared memory.
template <class T>
class SharedElement {
 public:
  operator T() const {  // NOLINT: reads like the element
    if (written_.block != now().block) fail("shared memory is read before it is written");
    if (races(written_)) fail("a thread reads shared memory that another wrote since the last barrier");
    // The last two readers: of many, a writer conflicts with at least one that isn't itself.
    if (read_[0].thread != now().thread || read_[0].block != now().block) read_[1] = read_[0];
    read_[0] = now();
    return value_;
  }
  SharedElement& operator=(const T& value) {
    if (races(written_) || races(read_[0]) || races(read_[1]))
      fail("a thread writes shared memory that another accessed since the last barrier");
    written_ = now();
    value_ = value;
    return *this;
  }
  SharedElement& operator=(const SharedElement& other) { return *this = static_cast<T>(other); }
  SharedElement& operator+=(const T& value) { return *this = static_cast<T>(*this) + value; }

 private:
  T value_{};
  Moment written_;
  mutable Moment read_[2];
};

template <class T, unsigned kCount>
class SharedArray {
 public:
  SharedElement<T>& operator[](int64_t i) {
    if (i < 0 || i >= kCount)
      fail("element " + std::to_string(i) + " of a shared array of " + std::to_string(kCount) + " elements");
    return elements_[i];
  }

 private:
  SharedElement<T> elements_[kCount];
};

}  // namespace trainer::testing::emulation

#define threadIdx (::trainer::testing::emulation::indices().thread_index)
#define blockIdx (::trainer::testing::emulation::indices().block_index)
#define blockDim (::trainer::testing::emulation::indices().block)
#define gridDim (::trainer::testing::emulation::indices().grid)
#define TRAINER_PLACE (::trainer::testing::emulation::Place{__FILE__, __LINE__})
#define __syncthreads() ::trainer::testing::emulation::sync_threads(TRAINER_PLACE)
#define __syncwarp(...) ::trainer::testing::emulation::sync_warp(0xFFFFFFFF, TRAINER_PLACE)
#define __shfl_xor_sync(mask, value, lanes) \
  ::trainer::testing::emulation::shuffle(mask, value, ::trainer::testing::emulation::lane() ^ (lanes), TRAINER_PLACE)
#define __shfl_sync(mask, value, from) ::trainer::testing::emulation::shuffle(mask, value, from, TRAINER_PLACE)
#define __shfl_down_sync(mask, value, by) ::trainer::testing::emulation::shuffle_down(mask, value, by, TRAINER_PLACE)
#define __ballot_sync(mask, predicate) ::trainer::testing::emulation::ballot(mask, predicate, TRAINER_PLACE)
/// Blocks run one after another, so an array in shared memory can be static.
#define TRAINER_SHARED(type, name, count) \
  static thread_local ::trainer::testing::emulation::SharedArray<type, count> name

namespace trainer::testing::emulation {

template <class T>
T shuffle(unsigned mask, T value, unsigned from, Place place) {
  return value_of<T>(exchange(mask, to_bits(value), place), from);
}

/// A lane beyond the last one keeps its value.
template <class T>
T shuffle_down(unsigned mask, T value, unsigned by, Place place) {
  const uint64_t* const values = exchange(mask, to_bits(value), place);
  return value_of<T>(values, lane() + by < 32 ? lane() + by : lane());
}

inline unsigned ballot(unsigned mask, bool predicate, Place place) {
  const uint64_t* const values = exchange(mask, predicate ? 1 : 0, place);
  unsigned votes = 0;
  for (unsigned i = 0; i < lanes(); ++i) votes |= static_cast<unsigned>(values[i] & 1) << i;
  return votes;
}

}  // namespace trainer::testing::emulation

inline float __fadd_rn(float a, float b) {
  return a + b;
}
inline float __fmul_rn(float a, float b) {
  return a * b;
}

/// Of memory that blocks share. (Threads take turns, so it is atomic.)
template <class T>
T atomicAdd(T* to, T value) {
  const T before = *to;
  *to = before + value;
  return before;
}

namespace trainer::nn::cuda {

template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, void* stream, Arguments... arguments) {
  trainer::testing::emulation::run_grid(grid, block, [&] { kernel(arguments...); });
}

}  // namespace trainer::nn::cuda
