// The simulated device's allocator, which keeps freed blocks as CUDA's does.
#include <cstdlib>

#include <gtest/gtest.h>

#include <ATen/ops/empty.h>
#include <c10/core/StreamGuard.h>

#include "tests/simulated/device.h"
#include "tests/support/device.h"

namespace trainer::testing {
namespace {

at::Tensor of(int64_t bytes) {
  return at::empty({bytes}, at::TensorOptions(device()).dtype(at::kByte));
}

TEST(SimulatedMemory, KeepsFreedBlocksAndReusesThem) {
  const void* const first = of(5000).const_data_ptr();
  EXPECT_EQ(simulated::held_bytes(0), 0);
  EXPECT_EQ(simulated::reserved_bytes(0), 5000);
  const at::Tensor again = of(4000);
  EXPECT_EQ(again.const_data_ptr(), first);
  EXPECT_EQ(simulated::held_bytes(0), 4000);
  const at::Tensor small = of(100);  // less than half of a kept block: it gets one of its own
  EXPECT_EQ(simulated::reserved_bytes(0), 5100);
  EXPECT_EQ(simulated::most_reserved_bytes(0), 5100);
  EXPECT_EQ(simulated::peak_bytes(0), 5000);
}

TEST(SimulatedMemory, ABlockStaysWithItsStream) {
  const auto address_of = [] { return of(1000).const_data_ptr(); };
  const void* const ours = address_of();
  const c10::impl::VirtualGuardImpl guard(simulated::kType);
  const c10::Stream other = guard.getNewStream(device());
  {
    const c10::StreamGuard on(other);
    EXPECT_NE(address_of(), ours);
  }
  EXPECT_EQ(address_of(), ours);
}

TEST(SimulatedMemory, ABlockThatAnotherStreamUsesIsNotReusedBeforeItIsDone) {
  const c10::impl::VirtualGuardImpl guard(simulated::kType);
  const c10::Stream other = guard.getNewStream(device());
  at::Tensor used = of(1000);
  const void* const address = used.const_data_ptr();
  guard.recordDataPtrOnStream(used.storage().data_ptr(), other);
  {
    const c10::StreamGuard on(other);
    simulated::note_launch("a read", {used}, {});
  }
  used = at::Tensor();
  const at::Tensor next = of(1000);
  EXPECT_NE(next.const_data_ptr(), address);
  guard.synchronizeStream(other);
  EXPECT_EQ(of(1000).const_data_ptr(), address);
}

TEST(SimulatedMemory, KeptBlocksAreGivenBackBeforeMemoryRunsOut) {
  setenv("TRAINER_SIMULATED_BYTES", "10000", 1);
  of(6000);
  EXPECT_EQ(simulated::reserved_bytes(0), 6000);
  const at::Tensor large = of(9000);
  EXPECT_EQ(simulated::reserved_bytes(0), 9000);
  EXPECT_THROW(of(1001), c10::OutOfMemoryError);
}

}  // namespace
}  // namespace trainer::testing
