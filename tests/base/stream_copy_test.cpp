#include "engine/base/stream_copy.h"

#include <numeric>
#include <vector>

#include <gtest/gtest.h>

namespace trainer {
namespace {

TEST(StreamCopy, CopiesExactlyTheRangeForAllSizesAndAlignments) {
  constexpr size_t kRoom = 70'000;
  std::vector<unsigned char> from(kRoom);
  std::iota(from.begin(), from.end(), 1);
  for (size_t at = 0; at < 70; ++at) {
    for (const size_t size : {0, 1, 15, 16, 63, 64, 65, 127, 128, 129, 500, 16'383, 16'384, 16'385, 16'500, 50'001}) {
      std::vector<unsigned char> to(kRoom, 0xEE), expected = to;
      stream_copy(to.data() + at, from.data() + at / 2, size);
      std::copy_n(from.begin() + static_cast<long>(at / 2), size, expected.begin() + static_cast<long>(at));
      ASSERT_EQ(to, expected) << at << " " << size;
    }
  }
}

}  // namespace
}  // namespace trainer
