// The emulator's own guarantees: it computes what a GPU would, and reports what would be wrong on one.
#include "tests/support/cuda_emulation.h"

#include <numeric>
#include <vector>

#include <gtest/gtest.h>

namespace trainer::testing {
namespace {

using emulation::EmulationError;
using nn::cuda::launch;

constexpr unsigned kAll = 0xFFFFFFFF;

/// Expects an error whose text has `what`.
template <class... Parameters, class... Arguments>
void expect_error(const char* what, unsigned threads, void (*kernel)(Parameters...), Arguments... arguments) {
  try {
    launch(kernel, 2, threads, nullptr, arguments...);
    FAIL() << "no error: " << what;
  } catch (const EmulationError& error) {
    EXPECT_NE(std::string(error.what()).find(what), std::string::npos) << error.what();
  }
}

__global__ void number_threads(dim3* seen, int* times) {
  const unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  const unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  const unsigned number = block * blockDim.x * blockDim.y * blockDim.z + thread;
  seen[number] = threadIdx;
  atomicAdd(times + number, 1);
}

TEST(Emulation, RunsEveryThreadOnce) {
  const dim3 grid(3, 2, 2), block(5, 3, 2);
  std::vector<dim3> seen(12 * 30);
  std::vector<int> times(12 * 30);
  launch(&number_threads, grid, block, nullptr, seen.data(), times.data());
  EXPECT_EQ(times, std::vector<int>(12 * 30, 1));
  EXPECT_EQ(seen[30 + 17].x, 17U % 5);
  EXPECT_EQ(seen[30 + 17].y, 17U / 5 % 3);
  EXPECT_EQ(seen[30 + 17].z, 1U);
}

/// Each block reverses its values in shared memory, `times` times.
__global__ void reverse(int* values, int times) {
  TRAINER_SHARED(int, shared, 256);
  int& own = values[blockIdx.x * blockDim.x + threadIdx.x];
  for (int i = 0; i < times; ++i) {
    shared[threadIdx.x] = own;
    __syncthreads();
    own = shared[blockDim.x - 1 - threadIdx.x];
    __syncthreads();
  }
}

TEST(Emulation, BarriersOrderSharedMemory) {
  for (const unsigned threads : {1U, 31U, 32U, 100U, 256U})
    for (const int times : {1, 2, 5}) {
      std::vector<int> values(3 * threads), expected(3 * threads);
      std::iota(values.begin(), values.end(), 0);
      for (unsigned i = 0; i < values.size(); ++i) {
        const unsigned thread = i % threads;
        expected[i] = static_cast<int>(i - thread + (times % 2 == 1 ? threads - 1 - thread : thread));
      }
      launch(&reverse, 3, threads, nullptr, values.data(), times);
      EXPECT_EQ(values, expected) << threads << " threads, " << times << " times";
    }
}

__global__ void sum_warps(const float* x, float* sums, unsigned* odd, float* next) {
  float sum = x[threadIdx.x];
  for (int apart = 16; apart > 0; apart /= 2) sum += __shfl_xor_sync(kAll, sum, apart);
  sums[threadIdx.x] = sum;
  odd[threadIdx.x] = __ballot_sync(kAll, threadIdx.x % 2 == 1);
  next[threadIdx.x] = __shfl_down_sync(kAll, x[threadIdx.x], 1) + __shfl_sync(kAll, x[threadIdx.x], 3);
}

TEST(Emulation, WarpsExchangeValues) {
  std::vector<float> x(96), sums(96), next(96);
  std::vector<unsigned> odd(96);
  std::iota(x.begin(), x.end(), 0.0F);
  launch(&sum_warps, 1, 96, nullptr, x.data(), sums.data(), odd.data(), next.data());
  for (unsigned i = 0; i < 96; ++i) {
    const unsigned first = i / 32 * 32;
    EXPECT_EQ(sums[i], 32.0F * static_cast<float>(first) + 31 * 16) << i;
    EXPECT_EQ(odd[i], 0xAAAAAAAAU) << i;
    EXPECT_EQ(next[i], static_cast<float>((i % 32 == 31 ? i : i + 1) + first + 3)) << i;
  }
}

__global__ void half_waits() {
  if (threadIdx.x < 16) __syncthreads();
}
__global__ void waits_in_two_places() {
  if (threadIdx.x < 16)
    __syncthreads();
  else
    __syncthreads();
}
__global__ void waits_once_more() {
  for (unsigned i = 0; i < 2 + threadIdx.x / 32; ++i) __syncthreads();
}

__global__ void waits_after_others_exit() {
  if (threadIdx.x > 0) __syncthreads();
}

TEST(Emulation, ReportsBarriersThatNotAllThreadsReach) {
  expect_error("exits while others wait at", 64, &half_waits);
  expect_error("others at", 64, &waits_in_two_places);
  expect_error("exits while others wait at", 64, &waits_once_more);
  expect_error("because they exited", 64, &waits_after_others_exit);
}

__global__ void half_shuffles() {
  if (threadIdx.x % 32 < 16) __shfl_xor_sync(kAll, 1, 1);
}
__global__ void shuffles_and_waits() {
  if (threadIdx.x < 16)
    __shfl_xor_sync(kAll, 1, 1);
  else
    __syncthreads();
}
__global__ void shuffles_whole_warp() {
  __shfl_xor_sync(kAll, 1, 1);
}
__global__ void shuffles_in_two_places() {
  if (threadIdx.x % 32 == 5)
    __shfl_xor_sync(kAll, 1, 1);
  else
    __shfl_xor_sync(kAll, 1, 1);
}

TEST(Emulation, ReportsWarpIntrinsicsThatNotAllLanesReach) {
  expect_error("exits while lanes of its warp wait", 64, &half_shuffles);
  expect_error("threads wait for each other", 32, &shuffles_and_waits);
  expect_error("does not name the 8 lanes", 40, &shuffles_whole_warp);
  expect_error("others of its warp at", 64, &shuffles_in_two_places);
}

__global__ void reads_without_barrier(int* out) {
  TRAINER_SHARED(int, shared, 64);
  shared[threadIdx.x] = 1;
  out[threadIdx.x] = shared[threadIdx.x ^ 1];
}
__global__ void writes_what_others_read() {
  TRAINER_SHARED(int, shared, 64);
  shared[threadIdx.x] = 1;
  __syncthreads();
  const int other = shared[63 - threadIdx.x];
  shared[threadIdx.x] = other;
}
__global__ void writes_together() {
  TRAINER_SHARED(int, shared, 1);
  shared[0] = 1;
}
__global__ void reads_nothing(int* out) {
  TRAINER_SHARED(int, shared, 64);
  if (blockIdx.x == 0) shared[threadIdx.x] = 1;
  __syncthreads();
  out[threadIdx.x] = shared[threadIdx.x];  // block 1 would see what block 0 left
}
__global__ void reads_beyond(int* out) {
  TRAINER_SHARED(int, shared, 63);
  if (threadIdx.x < 63) shared[threadIdx.x] = 1;
  __syncthreads();
  out[threadIdx.x] = shared[threadIdx.x];
}
__global__ void exchanges_in_warp(int* out) {
  TRAINER_SHARED(int, shared, 64);
  shared[threadIdx.x] = static_cast<int>(threadIdx.x);
  __syncwarp();
  out[threadIdx.x] = shared[threadIdx.x ^ 1];
}
__global__ void exchanges_between_warps(int* out) {
  TRAINER_SHARED(int, shared, 64);
  shared[threadIdx.x] = 1;
  __syncwarp();
  out[threadIdx.x] = shared[threadIdx.x ^ 32];
}

TEST(Emulation, ReportsMisusedSharedMemory) {
  std::vector<int> out(64);
  expect_error("read before it is written", 64, &reads_without_barrier, out.data());
  expect_error("reads shared memory that another wrote", 64, &writes_what_others_read);
  expect_error("writes shared memory that another accessed", 64, &writes_together);
  expect_error("read before it is written", 64, &reads_nothing, out.data());
  expect_error("element 63 of a shared array of 63", 64, &reads_beyond, out.data());
  expect_error("read before it is written", 64, &exchanges_between_warps, out.data());
  launch(&exchanges_in_warp, 1, 64, nullptr, out.data());
  EXPECT_EQ(out[6], 7);
}

__global__ void reads_other_half(int* out) {
  TRAINER_SHARED(int, shared, 64);
  if (threadIdx.x >= 32) shared[threadIdx.x] = 1;
  if (threadIdx.x >= 32) out[threadIdx.x] = shared[32];
}

TEST(Emulation, ReportsReadsWithoutABarrierAfterTheWrite) {
  std::vector<int> out(64);
  expect_error("reads shared memory that another wrote", 64, &reads_other_half, out.data());
}

__global__ void does_nothing() {}

TEST(Emulation, RefusesLaunchesThatAGpuRefuses) {
  for (const auto& [grid, block] : std::vector<std::pair<dim3, dim3>>{
           {dim3(0), dim3(32)}, {dim3(1), dim3(0)}, {dim3(1), dim3(1025)}, {dim3(1, 65536), dim3(1)}})
    EXPECT_THROW(launch(&does_nothing, grid, block, nullptr), EmulationError);
  launch(&does_nothing, dim3(70000), 1, nullptr);
  launch(&does_nothing, dim3(2, 3), 1024, nullptr);
}

TEST(Emulation, SmallFloatsRoundAsOnAGpu) {
  // Every half and bf16 survives, and values between two neighbors go to the nearest, ties to even.
  for (uint32_t bits = 0; bits < 0x7C00; ++bits) {
    const float value = __half2float({static_cast<uint16_t>(bits)});
    EXPECT_EQ(__float2half(value).bits, bits);
    EXPECT_EQ(__float2half(-value).bits, bits | 0x8000);
    const float next = bits == 0x7BFF ? 65536.0F : __half2float({static_cast<uint16_t>(bits + 1)});
    const float middle = value + (next - value) / 2;
    EXPECT_EQ(__float2half(middle).bits, bits % 2 == 0 ? bits : bits + 1) << value;
    EXPECT_EQ(__float2half(std::nextafter(middle, 0.0F)).bits, bits);
    EXPECT_EQ(__float2half(std::nextafter(middle, 1e9F)).bits, bits + 1);
  }
  for (uint32_t bits = 0; bits < 0x7F80; ++bits) {
    const float value = __bfloat162float({static_cast<uint16_t>(bits)});
    EXPECT_EQ(__float2bfloat16(value).bits, bits);
    const uint32_t middle_bits = bits << 16 | 0x8000;
    float middle;
    std::memcpy(&middle, &middle_bits, sizeof middle);
    EXPECT_EQ(__float2bfloat16(middle).bits, bits % 2 == 0 ? bits : bits + 1);
  }
  EXPECT_TRUE(std::isnan(__half2float(__float2half(NAN))));
  EXPECT_TRUE(std::isnan(__bfloat162float(__float2bfloat16(NAN))));
  EXPECT_TRUE(std::isinf(__half2float(__float2half(1e6F))));
}

#if defined(__SANITIZE_ADDRESS__)
__global__ void writes_beyond(int* out) {
  out[threadIdx.x] = 1;
}

TEST(Emulation, TheSanitizerSeesAccessesBeyondATensor) {
  const auto run = [] {
    std::vector<int> out(63);
    launch(&writes_beyond, 1, 64, nullptr, out.data());
  };
  EXPECT_DEATH(run(), "heap-buffer-overflow");
}
#endif

}  // namespace
}  // namespace trainer::testing
