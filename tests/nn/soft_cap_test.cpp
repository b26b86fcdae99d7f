#include "models/nn/soft_cap.h"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/tanh.h>
#include <gtest/gtest.h>

#include "tests/nn/reference.h"

namespace trainer::testing {
namespace {

// Values far below the cap, around it, and so far above that the slope vanishes: only in fp32, because the slope comes
// from the result, whose rounding in bf16 is then larger than the slope.
TEST(SoftCap, MatchesTheReference) {
  for (const auto& [dtype, cap] :
       {std::pair{at::kFloat, 0.3}, {at::kFloat, 2.0}, {at::kFloat, 30.0}, {at::kBFloat16, 3.0}, {at::kBFloat16, 30.0}})
    for (const int64_t rows : {0, 1, 700})
      expect_same([cap](const auto& in) { return nn::soft_cap(in[0], cap); },
                  [cap](const auto& in) { return at::tanh(in[0] / cap) * cap; }, {random_tensor({rows, 13}, 1, dtype)},
                  tolerance_of(dtype), "cap " + std::to_string(cap));
}

TEST(SoftCap, RowsAndThreadsChangeNoBit) {
  const at::Tensor x = 3 * random_tensor({900, 11}, 2), whole = nn::soft_cap(x, 2);
  EXPECT_TRUE(at::equal(nn::soft_cap(x.narrow(0, 417, 5), 2), whole.narrow(0, 417, 5)));
  const int threads = at::get_num_threads();
  at::set_num_threads(threads == 1 ? 2 : 1);
  EXPECT_TRUE(at::equal(nn::soft_cap(x, 2), whole));
  at::set_num_threads(threads);
}

}  // namespace
}  // namespace trainer::testing
