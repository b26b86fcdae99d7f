#include "engine/parallel/sums.h"

#include <cmath>
#include <limits>
#include <vector>

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/sum.h>
#include <gtest/gtest.h>

namespace trainer::testing {
namespace {

double squares_of(const std::vector<at::Tensor>& tensors) {
  parallel::ScalarSum sum;
  sum.add_squares(tensors);
  return parallel::values_of({sum}).front();
}

TEST(SumsOfSquares, AreInDoublePrecisionWhateverTheSizeAndTheThreads) {
  const int before = at::get_num_threads();
  std::vector<at::Tensor> all;
  double expected_of_all = 0;
  for (const int64_t size : {0, 1, 31, 32, 33, 65535, 65536, 65537, 200003}) {
    SCOPED_TRACE(size);
    const at::Tensor values = (at::arange(size, at::kDouble) * 12.9898).sin().mul(1e3).to(at::kFloat);
    const double expected = values.to(at::kDouble).square().sum().item<double>();
    at::set_num_threads(1);
    const double found = squares_of({values});
    EXPECT_NEAR(found, expected, 1e-13 * expected);
    at::set_num_threads(3);
    EXPECT_EQ(squares_of({values}), found);
    all.push_back(values);
    expected_of_all += expected;
  }
  EXPECT_NEAR(squares_of(all), expected_of_all, 1e-13 * expected_of_all);
  at::set_num_threads(before);
}

TEST(SumsOfSquares, AreNotFiniteIfAValueIsnt) {
  const at::Tensor values = at::arange(70000, at::kFloat);
  values[69999] = std::numeric_limits<float>::infinity();
  EXPECT_TRUE(std::isinf(squares_of({values})));
  values[3] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(std::isnan(squares_of({values})));
}

}  // namespace
}  // namespace trainer::testing
