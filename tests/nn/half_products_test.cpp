// Products in bf16 and fp16 against the same product in fp32, rounded once.
#include "models/nn/half_products.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include "models/nn/cpu_products.h"

namespace trainer::nn {
namespace {

at::Tensor random(int64_t rows, int64_t columns, at::ScalarType type, bool transposed = false) {
  if (transposed) return random(columns, rows, type).t();
  return at::randn({rows, columns}).to(type);
}

at::Tensor exact(const at::Tensor& a, const at::Tensor& b) {
  return at::mm(a.to(at::kDouble), b.to(at::kDouble));
}

/// Half a unit in the last place, and what fp32 adds up otherwise.
void expect_rounded(const at::Tensor& found, const at::Tensor& expected) {
  const double unit = found.scalar_type() == at::kBFloat16 ? 1.0 / 256 : 1.0 / 2048;
  const at::Tensor off = (found.to(at::kDouble) - expected).abs() - expected.abs() * (unit * 1.001);
  EXPECT_LT(off.max().item<double>(), 1e-4);
}

class HalfProduct : public ::testing::TestWithParam<at::ScalarType> {};

TEST_P(HalfProduct, IsThatOfFp32RoundedOnce) {
  struct Shape {
    int64_t m, k, n;
  };
  for (const auto& [m, k, n] : {Shape{1, 1, 1}, {3, 5, 7}, {2, 2048, 3}, {513, 1025, 514}, {64, 1500, 1030}})
    for (const bool a_transposed : {false, true})
      for (const bool b_transposed : {false, true}) {
        SCOPED_TRACE(::testing::Message() << m << " " << k << " " << n << " " << a_transposed << b_transposed);
        const at::Tensor a = random(m, k, GetParam(), a_transposed), b = random(k, n, GetParam(), b_transposed);
        const at::Tensor out = at::full({m, n}, NAN, a.options());
        half_product(a, b, {}, 0, 1, out);
        expect_rounded(out, exact(a, b));
      }
}

TEST_P(HalfProduct, AddsWhatIsBroadcast) {
  const at::Tensor a = random(20, 30, GetParam()), b = random(30, 40, GetParam());
  for (const at::Tensor& added :
       {random(20, 40, GetParam()), random(20, 40, GetParam(), true), random(1, 40, GetParam()),
        random(20, 1, GetParam()), random(1, 40, GetParam()).squeeze(0)}) {
    const at::Tensor out = at::empty({20, 40}, a.options());
    half_product(a, b, added, -0.5F, 2, out);
    expect_rounded(out, exact(a, b) * 2 - added.to(at::kDouble) * 0.5);
  }
}

TEST_P(HalfProduct, WritesInPlaceAndIntoPartsOfTensors) {
  const at::Tensor a = random(20, 60, GetParam()).narrow(1, 10, 30), b = random(60, 40, GetParam()).narrow(0, 5, 30);
  const at::Tensor whole = random(50, 100, GetParam()), before = whole.clone();
  at::Tensor part = whole.narrow(0, 7, 20).narrow(1, 3, 40);
  half_product(a, b, part, 1, 1, part);
  expect_rounded(part, exact(a, b) + before.narrow(0, 7, 20).narrow(1, 3, 40).to(at::kDouble));
  part.copy_(before.narrow(0, 7, 20).narrow(1, 3, 40));
  EXPECT_TRUE(whole.equal(before));
  const at::Tensor columns = random(40, 20, GetParam()).t();
  half_product(a, b, {}, 0, 1, columns);
  expect_rounded(columns, exact(a, b));
  const at::Tensor strided = random(60, 60, GetParam()).as_strided({20, 30}, {120, 2});
  half_product(strided, b, {}, 0, 1, part);
  expect_rounded(part, exact(strided, b));
}

/// On a CPU with the instructions, these are libtorch's own.
TEST_P(HalfProduct, IsWhatOperatorsCompute) {
  use_cpu_products();
  const at::Tensor a = random(30, 50, GetParam()), b = random(50, 20, GetParam()), added = random(30, 20, GetParam());
  const at::Tensor product = exact(a, b), bias = random(1, 20, GetParam()).squeeze(0);
  expect_rounded(at::mm(a, b), product);
  expect_rounded(a.matmul(b), product);
  at::Tensor out = at::empty({30, 20}, a.options());
  at::mm_out(out, a, b);
  expect_rounded(out, product);
  expect_rounded(at::addmm(bias, a, b, 1, 1), product + bias.to(at::kDouble));
  expect_rounded(added.clone().addmm_(a, b, 1, 0.5), product * 0.5 + added.to(at::kDouble));
  EXPECT_THROW(at::mm(a, a), c10::Error);
  EXPECT_THROW(at::mm(a, b.to(at::kFloat)), c10::Error);
  EXPECT_EQ(at::mm(at::empty({0, 50}, a.options()), b).size(0), 0);
  expect_rounded(at::mm(a.narrow(0, 0, 1), b), product.narrow(0, 0, 1));
}

/// Whatever else of mm is replaced: libtorch's loop sums in another order.
TEST_P(HalfProduct, IsUsedWhereItIsFaster) {
  use_cpu_products();
  const at::Tensor a = random(64, 3000, GetParam()), b = random(3000, 64, GetParam());
  if (!has_half_product(a, b)) GTEST_SKIP() << "this CPU multiplies " << GetParam() << " itself";
  const at::Tensor out = at::empty({64, 64}, a.options());
  half_product(a, b, {}, 0, 1, out);
  EXPECT_TRUE(at::mm(a, b).equal(out));
}

TEST_P(HalfProduct, HasGradients) {
  use_cpu_products();
  const at::Tensor a = random(30, 50, GetParam()).requires_grad_(), b = random(50, 20, GetParam()).requires_grad_();
  const at::Tensor grad = random(30, 20, GetParam());
  at::mm(a, b).backward(grad);
  expect_rounded(a.grad(), exact(grad, b.detach().t()));
  expect_rounded(b.grad(), exact(a.detach().t(), grad));
}

INSTANTIATE_TEST_SUITE_P(Types, HalfProduct, ::testing::Values(at::kBFloat16, at::kHalf));

}  // namespace
}  // namespace trainer::nn
