// Note [bf16 products]: of tiles by each of the CPU's instructions and by their emulation, so that packing
// and blocks are tested on CPUs without them, too.
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

#include "models/nn/bf16_gemm.h"
#include "models/nn/bf16_products.h"
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
void emulated_multiply(const Bf16Tiles& tiles, float* sums) {
  const int64_t bytes = tiles.steps * tiles.parts * kBf16TileBytes;
  for (int64_t i = 0; i < tiles.rows * kBf16Lines; ++i)
    for (int64_t j = 0; j < tiles.columns * kBf16Lines; ++j) {
      double sum = 0;
      for (int64_t step = 0; step < tiles.steps; ++step)
        for (int first = 0; first < tiles.parts; ++first)
          for (int second = 0; first + second < tiles.parts; ++second) {
            const char* const a = tiles.a + i / kBf16Lines * bytes + (step * tiles.parts + first) * kBf16TileBytes;
            const char* const b = tiles.b + j / kBf16Lines * bytes + (step * tiles.parts + second) * kBf16TileBytes;
            for (int64_t pair = 0; pair < kBf16Terms / 2; ++pair)
              for (const int half : {0, 1})
                sum +=
                    static_cast<double>(number(a, i % kBf16Lines, pair, half)) * number(b, pair, j % kBf16Lines, half);
          }
      sums[i * kBf16Width + j] = static_cast<float>(sum);
    }
}

struct Instructions {
  const char* name;
  Bf16Multiply* multiply;
  bool (*there)();
  int most_parts;
};

/// Without the instructions, the test of the emulation shows that packing is right; without AVX-512 there is no packing
/// either.
class Bf16Products : public ::testing::TestWithParam<Instructions> {
 protected:
  void SetUp() override {
    if (!GetParam().there()) GTEST_SKIP() << "this CPU lacks the instructions";
  }
  Bf16Multiply& multiply() const { return *GetParam().multiply; }
  int most_parts() const { return GetParam().most_parts; }

  at::Tensor product(const at::Tensor& a, const at::Tensor& b, int parts) const {
    const at::Tensor out = at::full({a.size(0), b.size(1)}, NAN, a.options());
    multiply_into(a, b, parts, 1, 0, out);
    return out;
  }
  void multiply_into(const at::Tensor& a, const at::Tensor& b, int parts, float alpha, float beta,
                     const at::Tensor& out) const {
    const int64_t m = a.size(0), n = b.size(1), k = a.size(1);
    if (a.scalar_type() == at::kFloat)
      bf16_gemm(multiply(), parts, m, n, k, alpha, strided<float>(a), strided<float>(b), beta, out.data_ptr<float>(),
                out.stride(0));
    else
      bf16_gemm(multiply(), m, n, k, alpha, strided<c10::BFloat16>(a), strided<c10::BFloat16>(b), beta,
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

TEST_P(Bf16Products, MultipliesAnySizeAndOrder) {
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
    for (int parts = 1; parts <= most_parts(); ++parts)
      for (const at::Tensor& a : both_orders(at::randn({m, k})))
        for (const at::Tensor& b : both_orders(at::randn({k, n}))) {
          SCOPED_TRACE(::testing::Message() << m << " " << n << " " << k << ", parts " << parts << ", strides "
                                            << a.strides() << b.strides());
          EXPECT_LT(error_of(product(a, b, parts), exact(a, b)), (m * n * k < 100 ? 4 : 1) * kLargestError[parts]);
        }
}

TEST_P(Bf16Products, RoundsBf16Once) {
  for (const int64_t k : {40, 2100})
    for (const at::Tensor& a : both_orders(at::randn({70, k}).to(at::kBFloat16)))
      for (const at::Tensor& b : both_orders(at::randn({k, 45}).to(at::kBFloat16))) {
        const at::Tensor expected = exact(a, b), found = product(a, b, 1).to(at::kDouble);
        const double off = ((found - expected).abs() - expected.abs() / 256).max().item<double>();
        EXPECT_LT(off, 1e-4);
        EXPECT_TRUE(product(a, b, 1).equal(product(a, b, 1)));
      }
}

TEST_P(Bf16Products, AddsWithTheFactors) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    const at::Tensor a = at::randn({40, 1100}).to(type), b = at::randn({1100, 35}).to(type);
    const at::Tensor whole = at::randn({40, 50}).to(type), before = whole.clone();
    multiply_into(a, b, most_parts(), 2, -0.5F, whole.narrow(1, 10, 35));
    EXPECT_LT(error_of(whole.narrow(1, 10, 35), exact(a, b) * 2 - before.narrow(1, 10, 35).to(at::kDouble) * 0.5),
              type == at::kFloat && most_parts() == kMostParts ? 4e-7 : 4e-3);
    EXPECT_TRUE(whole.narrow(1, 0, 10).equal(before.narrow(1, 0, 10)));
    EXPECT_TRUE(whole.narrow(1, 45, 5).equal(before.narrow(1, 45, 5)));
  }
}

/// As the ranks and threads of a run divide products differently.
TEST_P(Bf16Products, AnElementDependsOnItsRowAndColumnAlone) {
  const at::Tensor a = at::randn({600, 700}), b = at::randn({700, 90});
  const int parts = most_parts();
  const at::Tensor all = product(a, b, parts);
  EXPECT_TRUE(product(a.narrow(0, 3, 40), b, parts).equal(all.narrow(0, 3, 40)));
  EXPECT_TRUE(product(a, b.narrow(1, 7, 21), parts).equal(all.narrow(1, 7, 21)));
}

TEST_P(Bf16Products, NumbersThatAreNotOrdinaryKeepTheirMeaning) {
  at::Tensor a = at::zeros({32, 32}), b = at::zeros({32, 32});
  const auto multiplied = [&](float x, float y) {
    a[3][5] = x;
    b[5][7] = y;
    return product(a, b, most_parts())[3][7].item<float>();
  };
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const bool exact = most_parts() == kMostParts;
  const float largest = exact ? FLT_MAX : static_cast<float>(std::numeric_limits<c10::BFloat16>::max());
  EXPECT_EQ(multiplied(FLT_MAX, 1), largest);
  EXPECT_EQ(multiplied(-FLT_MAX, 0.5F), -largest / 2);
  EXPECT_EQ(multiplied(FLT_MIN, 1), FLT_MIN);
  if (exact) EXPECT_EQ(multiplied(1 + FLT_EPSILON, 1 - FLT_EPSILON / 2), 1 + FLT_EPSILON / 2);
  EXPECT_FALSE(std::isfinite(multiplied(kInfinity, 2)));
  EXPECT_FALSE(std::isfinite(multiplied(1, -kInfinity)));
  EXPECT_TRUE(std::isnan(multiplied(NAN, 2)));
  EXPECT_EQ(multiplied(0, 2), 0);
}

TEST_P(Bf16Products, LeavesDenormalNumbersToOthers) {
  product(at::randn({40, 40}), at::randn({40, 40}), most_parts());
  volatile float smallest = FLT_MIN;
  EXPECT_GT(smallest / 2, 0);
}

INSTANTIATE_TEST_SUITE_P(By, Bf16Products,
                         ::testing::Values(Instructions{"Emulation", emulated_multiply, has_bf16_pack, kMostParts},
                                           Instructions{"Amx", amx_multiply, has_amx, kMostParts},
                                           Instructions{"Avx512", dot_multiply, has_bf16_dots, 1}),
                         [](const auto& info) { return info.param.name; });

TEST(Bf16Product, HasThePrecisionThatTorchNames) {
  if (bf16_multiply_for(1) == nullptr) GTEST_SKIP() << "this CPU multiplies no faster in bf16";
  const at::Tensor a = at::randn({300, 500}), b = at::randn({500, 200});
  double last = 0;
  for (const auto& [precision, parts] : {std::pair{"highest", 3}, {"high", 2}, {"medium", 1}}) {
    at::globalContext().setFloat32MatmulPrecision(precision);
    EXPECT_EQ(bf16_parts(), parts);
    EXPECT_EQ(has_bf16_product(a, b), bf16_multiply_for(parts) != nullptr);
    if (!has_bf16_product(a, b)) continue;
    const at::Tensor out = at::empty({300, 200});
    bf16_product(a, b, {}, 0, 1, out);
    const double error = error_of(out, exact(a, b));
    EXPECT_LT(error, kLargestError[parts]);
    EXPECT_GT(error, last);
    last = error;
  }
  at::globalContext().setFloat32MatmulPrecision("highest");
}

}  // namespace
}  // namespace trainer::nn
