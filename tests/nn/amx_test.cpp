// Products by AMX (Note [Products by AMX]): of tiles by the CPU's instructions and by their emulation, so that packing
// and blocks are tested on CPUs without AMX, too.
#include <array>
#include <cfloat>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/norm.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "models/nn/amx_gemm.h"
#include "models/nn/amx_products.h"
#include "models/nn/product_parts.h"

namespace trainer::nn {
namespace {

/// Number `half` of the pair `lane` of a row of a tile.
float number(const char* tile, int64_t row, int64_t lane, int half) {
  c10::BFloat16 value;
  std::memcpy(&value, tile + row * 64 + lane * 4 + half * 2, sizeof(value));
  return static_cast<float>(value);
}

/// What the instructions compute, in fp64 and rounded to fp32 for each tile.
void emulated_multiply(const AmxTiles& tiles, float* sums) {
  const int64_t bytes = tiles.steps * tiles.parts * kAmxTileBytes;
  for (int64_t i = 0; i < tiles.rows * kAmxLines; ++i)
    for (int64_t j = 0; j < tiles.columns * kAmxLines; ++j) {
      double sum = 0;
      for (int64_t step = 0; step < tiles.steps; ++step)
        for (int first = 0; first < tiles.parts; ++first)
          for (int second = 0; first + second < tiles.parts; ++second) {
            const char* const a = tiles.a + i / kAmxLines * bytes + (step * tiles.parts + first) * kAmxTileBytes;
            const char* const b = tiles.b + j / kAmxLines * bytes + (step * tiles.parts + second) * kAmxTileBytes;
            for (int64_t pair = 0; pair < kAmxTerms / 2; ++pair)
              for (const int half : {0, 1})
                sum += static_cast<double>(number(a, i % kAmxLines, pair, half)) * number(b, pair, j % kAmxLines, half);
          }
      sums[i * kAmxWidth + j] = static_cast<float>(sum);
    }
}

/// Without AMX, the test of the emulation shows that packing is right; without AVX-512 there is no packing either.
class Amx : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (!has_amx_pack()) GTEST_SKIP() << "this CPU has no AVX-512";
    if (!GetParam() && !has_amx()) GTEST_SKIP() << "this CPU has no AMX";
  }
  AmxMultiply& multiply() const { return GetParam() ? emulated_multiply : amx_multiply; }

  at::Tensor product(const at::Tensor& a, const at::Tensor& b, int parts) const {
    const at::Tensor out = at::full({a.size(0), b.size(1)}, NAN, a.options());
    multiply_into(a, b, parts, 1, 0, out);
    return out;
  }
  void multiply_into(const at::Tensor& a, const at::Tensor& b, int parts, float alpha, float beta,
                     const at::Tensor& out) const {
    const int64_t m = a.size(0), n = b.size(1), k = a.size(1);
    if (a.scalar_type() == at::kFloat)
      amx_gemm(multiply(), parts, m, n, k, alpha, strided<float>(a), strided<float>(b), beta, out.data_ptr<float>(),
               out.stride(0));
    else
      amx_gemm(multiply(), m, n, k, alpha, strided<c10::BFloat16>(a), strided<c10::BFloat16>(b), beta,
               out.data_ptr<c10::BFloat16>(), out.stride(0));
  }
};

at::Tensor exact(const at::Tensor& a, const at::Tensor& b) {
  return at::matmul(a.to(at::kDouble), b.to(at::kDouble));
}
double error_of(const at::Tensor& found, const at::Tensor& expected) {
  return (found.to(at::kDouble) - expected).norm().item<double>() / expected.norm().item<double>();
}
/// With rows or columns contiguous.
std::array<at::Tensor, 2> both_orders(const at::Tensor& x) {
  return {x, x.t().contiguous().t()};
}

constexpr double kLargestError[] = {0, 4e-3, 1e-5, 2.5e-7};  // by parts

TEST_P(Amx, MultipliesAnySizeAndOrder) {
  struct Size {
    int64_t m, n, k;
  };
  for (const auto& [m, n, k] : {Size{1, 1, 1},
                                {16, 16, 32},
                                {32, 32, 64},
                                {33, 17, 31},
                                {5, 40, 300},
                                {77, 33, 129},
                                {600, 20, 50},
                                {20, 50, 1100}})
    for (const int parts : {1, 2, 3})
      for (const at::Tensor& a : both_orders(at::randn({m, k})))
        for (const at::Tensor& b : both_orders(at::randn({k, n}))) {
          SCOPED_TRACE(::testing::Message() << m << " " << n << " " << k << ", parts " << parts << ", strides "
                                            << a.strides() << b.strides());
          EXPECT_LT(error_of(product(a, b, parts), exact(a, b)), (m * n * k < 100 ? 4 : 1) * kLargestError[parts]);
        }
}

TEST_P(Amx, RoundsBf16Once) {
  for (const int64_t k : {40, 2100})
    for (const at::Tensor& a : both_orders(at::randn({70, k}).to(at::kBFloat16)))
      for (const at::Tensor& b : both_orders(at::randn({k, 45}).to(at::kBFloat16))) {
        const at::Tensor expected = exact(a, b), found = product(a, b, 1).to(at::kDouble);
        const double off = ((found - expected).abs() - expected.abs() / 256).max().item<double>();
        EXPECT_LT(off, 1e-4);
        EXPECT_TRUE(product(a, b, 1).equal(product(a, b, 1)));
      }
}

TEST_P(Amx, AddsWithTheFactors) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    const at::Tensor a = at::randn({40, 1100}).to(type), b = at::randn({1100, 35}).to(type);
    const at::Tensor whole = at::randn({40, 50}).to(type), before = whole.clone();
    multiply_into(a, b, 3, 2, -0.5F, whole.narrow(1, 10, 35));
    EXPECT_LT(error_of(whole.narrow(1, 10, 35), exact(a, b) * 2 - before.narrow(1, 10, 35).to(at::kDouble) * 0.5),
              type == at::kFloat ? 4e-7 : 4e-3);
    EXPECT_TRUE(whole.narrow(1, 0, 10).equal(before.narrow(1, 0, 10)));
    EXPECT_TRUE(whole.narrow(1, 45, 5).equal(before.narrow(1, 45, 5)));
  }
}

/// As the ranks and threads of a run divide products differently.
TEST_P(Amx, AnElementDependsOnItsRowAndColumnAlone) {
  const at::Tensor a = at::randn({600, 700}), b = at::randn({700, 90});
  const at::Tensor all = product(a, b, 3);
  EXPECT_TRUE(product(a.narrow(0, 3, 40), b, 3).equal(all.narrow(0, 3, 40)));
  EXPECT_TRUE(product(a, b.narrow(1, 7, 21), 3).equal(all.narrow(1, 7, 21)));
}

TEST_P(Amx, NumbersThatAreNotOrdinaryKeepTheirMeaning) {
  at::Tensor a = at::zeros({32, 32}), b = at::zeros({32, 32});
  const auto multiplied = [&](float x, float y) {
    a[3][5] = x;
    b[5][7] = y;
    return product(a, b, 3)[3][7].item<float>();
  };
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(multiplied(FLT_MAX, 1), FLT_MAX);
  EXPECT_EQ(multiplied(-FLT_MAX, 0.5F), -FLT_MAX / 2);
  EXPECT_EQ(multiplied(FLT_MIN, 1), FLT_MIN);
  EXPECT_EQ(multiplied(1 + FLT_EPSILON, 1 - FLT_EPSILON / 2), 1 + FLT_EPSILON / 2);
  EXPECT_FALSE(std::isfinite(multiplied(kInfinity, 2)));
  EXPECT_FALSE(std::isfinite(multiplied(1, -kInfinity)));
  EXPECT_TRUE(std::isnan(multiplied(NAN, 2)));
  EXPECT_EQ(multiplied(0, 2), 0);
}

TEST_P(Amx, LeavesDenormalNumbersToOthers) {
  product(at::randn({40, 40}), at::randn({40, 40}), 3);
  volatile float smallest = FLT_MIN;
  EXPECT_GT(smallest / 2, 0);
}

INSTANTIATE_TEST_SUITE_P(Multiply, Amx, ::testing::Bool(), [](const auto& info) {
  return info.param ? std::string("Emulated") : std::string("ByTheCpu");
});

TEST(AmxProduct, HasThePrecisionThatTorchNames) {
  if (!has_amx()) GTEST_SKIP() << "this CPU has no AMX";
  const at::Tensor a = at::randn({300, 500}), b = at::randn({500, 200});
  double last = 0;
  for (const auto& [precision, parts] : {std::pair{"highest", 3}, {"high", 2}, {"medium", 1}}) {
    at::globalContext().setFloat32MatmulPrecision(precision);
    EXPECT_EQ(amx_parts(), parts);
    const at::Tensor out = at::empty({300, 200});
    amx_product(a, b, {}, 0, 1, out);
    const double error = error_of(out, exact(a, b));
    EXPECT_LT(error, kLargestError[parts]);
    EXPECT_GT(error, last);
    last = error;
  }
  at::globalContext().setFloat32MatmulPrecision("highest");
}

}  // namespace
}  // namespace trainer::nn
