// mm and addmm in fp32, whichever library multiplies (Note [fp32 products]).
#include <sys/time.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <deque>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/norm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>

#include "engine/base/signal_thread.h"
#include "models/nn/cpu_products.h"
#include "models/nn/fp32_products.h"

namespace trainer::nn {
namespace {

class Fp32Products : public ::testing::TestWithParam<std::array<int64_t, 3>> {
 protected:
  Fp32Products() {
    use_cpu_products();
    const auto [m, n, k] = GetParam();
    a_ = at::randn({m, k});
    b_ = at::randn({k, n});
    added_ = at::randn({m, n});
  }
  static void expect_near(const at::Tensor& found, const at::Tensor& expected) {
    ASSERT_EQ(found.sizes(), expected.sizes());
    EXPECT_LT((found.to(at::kDouble) - expected).norm().item<double>(), 2e-6 * expected.norm().item<double>());
  }
  at::Tensor exact() const { return at::matmul(a_.to(at::kDouble), b_.to(at::kDouble)); }

  at::Tensor a_, b_, added_;
};

TEST_P(Fp32Products, AreRightForAnyStrides) {
  const at::Tensor by_columns_a = a_.t().contiguous().t(), by_columns_b = b_.t().contiguous().t();
  for (const at::Tensor& a : {a_, by_columns_a})
    for (const at::Tensor& b : {b_, by_columns_b}) expect_near(at::mm(a, b), exact());
  const at::Tensor wide = at::randn({a_.size(0), 2 * a_.size(1)});
  expect_near(at::mm(wide.narrow(1, a_.size(1), a_.size(1)), b_),
              at::matmul(wide.narrow(1, a_.size(1), a_.size(1)).to(at::kDouble), b_.to(at::kDouble)));
  at::Tensor out = at::randn({a_.size(0), b_.size(1)});
  at::mm_out(out, a_, b_);
  expect_near(out, exact());
}

/// A run changes its number of threads on the way where this is promised (Note [Fair threads]).
TEST_P(Fp32Products, ThreadsChangeNoBitWhereThatIsPromised) {
  const int before = at::get_num_threads();
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    if (!products_ignore_threads(type)) continue;
    for (const at::Tensor& a : {a_.to(type), a_.to(type).t().contiguous().t()})
      for (const at::Tensor& b : {b_.to(type), b_.to(type).t().contiguous().t()}) {
        at::set_num_threads(1);
        const at::Tensor alone = at::mm(a, b);
        for (const bool with_grad : {true, false}) {  // without: in the functions of autograd, also in training
          const at::AutoGradMode mode(with_grad);
          for (const int threads : {1, 2, 3}) {
            at::set_num_threads(threads);
            EXPECT_TRUE(at::mm(a, b).equal(alone)) << type << ' ' << threads << " threads";
          }
        }
      }
  }
  at::set_num_threads(before);
}

TEST_P(Fp32Products, AreAddedWithTheirFactors) {
  const at::Tensor added = added_.to(at::kDouble);
  expect_near(at::addmm(added_, a_, b_), added + exact());
  expect_near(at::addmm(added_, a_, b_, 0, 2), 2 * exact());
  expect_near(at::addmm(added_[0], a_, b_, 0.5, 3), 0.5 * added[0] + 3 * exact());
  expect_near(at::linear(a_, b_.t(), added_[0]), added[0] + exact());
  at::Tensor out = added_.clone();
  out.addmm_(a_, b_);
  expect_near(out, added + exact());
  out = at::full_like(added_, std::numeric_limits<float>::quiet_NaN());
  out.addmm_(a_, b_, 0, 2);
  expect_near(out, 2 * exact());
  out = added_.clone();
  out.addmm_(a_, b_, -1, 0.5);
  expect_near(out, 0.5 * exact() - added);
}

TEST_P(Fp32Products, AreTheSameEachTime) {
  EXPECT_TRUE(at::mm(a_, b_).equal(at::mm(a_, b_)));
}

INSTANTIATE_TEST_SUITE_P(Sizes, Fp32Products,
                         ::testing::Values(std::array<int64_t, 3>{1, 512, 512}, std::array<int64_t, 3>{4, 1000, 300},
                                           std::array<int64_t, 3>{77, 129, 513}, std::array<int64_t, 3>{256, 64, 64},
                                           std::array<int64_t, 3>{300, 8, 768}, std::array<int64_t, 3>{300, 768, 8},
                                           std::array<int64_t, 3>{512, 200, 300}));

TEST(Fp32Product, ShapesThatDoNotFitAreRefused) {
  use_cpu_products();
  EXPECT_ANY_THROW(at::mm(at::randn({64, 300}), at::randn({301, 64})));
  EXPECT_ANY_THROW(at::addmm(at::randn({3, 64}), at::randn({64, 512}), at::randn({512, 64})));
}

/// Multiplies while a signal arrives every 50 us, and looks at all other memory.
[[noreturn]] void multiply_under_signals() {
  receive_signals_on_own_thread();
  std::signal(SIGALRM, [](int) {});
  use_cpu_products();
  const itimerval often{{0, 50}, {0, 50}};
  setitimer(ITIMER_REAL, &often, nullptr);
  std::deque<std::vector<char>> others;
  for (int64_t terms = 100; terms < 700; ++terms) {
    const at::Tensor a = at::ones({120, terms}), b = at::ones({terms, 192});
    for (int round = 0; round < 4; ++round) {
      others.emplace_back(4000, 'x');
      if (at::mm(a, b).ne(static_cast<float>(terms)).any().item<bool>()) std::_Exit(1);
    }
    while (others.size() > 64) others.pop_front();
    for (const std::vector<char>& other : others)
      if (std::ranges::count(other, 'x') != 4000) std::_Exit(2);
  }
  std::_Exit(0);
}

// Note [Signals]: without their own thread, this ends with a damaged heap where oneDNN multiplies.
TEST(Fp32Product, SignalsLeaveMemoryAlone) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(multiply_under_signals(), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace trainer::nn
