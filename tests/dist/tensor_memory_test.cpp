// The allocator of tensors (Note [Aligned memory]).
#include <cstdint>
#include <vector>

#include <ATen/ops/empty.h>
#include <c10/core/alignment.h>
#include <gtest/gtest.h>

#include "engine/dist/memory.h"

namespace trainer::dist {
namespace {

at::Tensor bytes(int64_t count) {
  return at::empty({count}, at::kByte);
}

TEST(TensorMemory, IsAlignedAndCounted) {
  count_tensor_memory();
  const int64_t before = tensor_bytes();
  std::vector<at::Tensor> tensors;
  int64_t total = 0;
  for (const int64_t size : {1, 7, 64, 1000, 4096, 100'000, 10'000'000}) {
    tensors.push_back(bytes(size));
    total += size;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(tensors.back().data_ptr()) % c10::gAlignment, 0) << size << " bytes";
  }
  EXPECT_EQ(tensor_bytes() - before, total);
  tensors.clear();
  EXPECT_EQ(tensor_bytes(), before);
}

TEST(TensorMemory, ThatCannotBeHadIsRefusedByLibtorch) {
  count_tensor_memory();
  EXPECT_THROW(bytes(int64_t{1} << 60), c10::Error);
}

}  // namespace
}  // namespace trainer::dist
