// Products of parts of matrices against the same sums in fp64.
#include "models/nn/gemm.h"

#include <cmath>
#include <functional>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "models/nn/bf16_gemm.h"
#include "models/nn/few_rows_gemm.h"
#include "models/nn/tile_kernels.h"
#include "models/nn/tiled_operand.h"
#include "tests/nn/portable_tiles.h"

namespace trainer::nn {
namespace {

using Gemm = std::function<void(Transposed which, int64_t m, int64_t n, int64_t k, float alpha, Matrix a, Matrix b,
                                float beta, float* c, int64_t c_stride)>;

Gemm gemm_in_parts(int parts) {
  return [parts](Transposed which, int64_t m, int64_t n, int64_t k, float alpha, Matrix a, Matrix b, float beta,
                 float* c, int64_t c_stride) { gemm(which, m, n, k, alpha, a, b, beta, c, c_stride, parts); };
}

Gemm gemm_by_tiles(const TileKernels& kernels) {
  return [&kernels](Transposed which, int64_t m, int64_t n, int64_t k, float alpha, Matrix a, Matrix b, float beta,
                    float* c, int64_t c_stride) {
    const auto strided = [](Matrix x, bool transposed) {
      return transposed ? Strided{x.data, 1, x.stride} : Strided{x.data, x.stride, 1};
    };
    tiled_gemm(kernels, m, n, k, alpha, strided(a, which == Transposed::kFirst),
               strided(b, which == Transposed::kSecond), beta, c, c_stride);
  };
}

struct Size {
  int64_t m, n, k;
};

// Around the sizes of tiles (6 x 64), of vectors (16) and of panels (256 terms), and of blocks of few rows (48).
constexpr Size kSizes[] = {{1, 1, 1},      {1, 16, 5},   {5, 17, 3},    {6, 64, 16},    {7, 65, 17},
                           {13, 48, 64},   {64, 31, 64}, {64, 64, 64},  {30, 30, 64},   {12, 96, 255},
                           {3, 100, 256},  {4, 33, 257}, {64, 64, 600}, {100, 129, 70}, {31, 200, 300},
                           {1600, 130, 9}, {2, 3, 0},    {12, 40, 2300}};
constexpr float kUntouched = 12345;

/// Rows of random numbers, `stride` apart; what lies between them is NaN.
std::vector<float> matrix(int64_t rows, int64_t columns, int64_t stride, std::mt19937& random) {
  std::normal_distribution<float> normal;
  std::vector<float> x(rows * stride, NAN);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c) x[r * stride + c] = normal(random);
  return x;
}

void expect_exact(const Gemm& gemm, Transposed which, Size size, float alpha, float beta, double error) {
  SCOPED_TRACE(::testing::Message() << size.m << " x " << size.n << ", " << size.k << " terms, transposed "
                                    << static_cast<int>(which) << ", beta " << beta);
  const auto [m, n, k] = size;
  std::mt19937 random(1);
  const bool first = which == Transposed::kFirst, second = which == Transposed::kSecond;
  const int64_t a_stride = (first ? m : k) + 3, b_stride = (second ? k : n) + 5, c_stride = n + 7;
  const auto a = first ? matrix(k, m, a_stride, random) : matrix(m, k, a_stride, random);
  const auto b = second ? matrix(n, k, b_stride, random) : matrix(k, n, b_stride, random);
  std::vector<float> c(m * c_stride, kUntouched), before = matrix(m, n, c_stride, random);
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) c[i * c_stride + j] = beta == 0 ? NAN : before[i * c_stride + j];
  gemm(which, m, n, k, alpha, {a.data(), a_stride}, {b.data(), b_stride}, beta, c.data(), c_stride);
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < c_stride; ++j) {
      const float found = c[i * c_stride + j];
      if (j >= n) {
        ASSERT_EQ(found, kUntouched) << "beyond row " << i;
        continue;
      }
      double sum = 0, size_of_terms = 0;
      for (int64_t t = 0; t < k; ++t) {
        const double term = static_cast<double>(a[first ? t * a_stride + i : i * a_stride + t]) *
                            b[second ? j * b_stride + t : t * b_stride + j];
        sum += term, size_of_terms += std::abs(term);
      }
      sum *= alpha;
      if (beta != 0) sum += static_cast<double>(beta) * before[i * c_stride + j];
      ASSERT_NEAR(found, sum, error * (size_of_terms + 3)) << "row " << i << ", column " << j;
    }
  }
}

void expect_exact_everywhere(const Gemm& gemm, double error = 1e-6) {
  for (const Transposed which : {Transposed::kNone, Transposed::kFirst, Transposed::kSecond})
    for (const Size& size : kSizes)
      for (const float beta : {0.0F, 1.0F, -0.5F}) expect_exact(gemm, which, size, 0.75F, beta, error);
}

TEST(Gemm, IsExactForPartsOfMatrices) {
  expect_exact_everywhere(gemm_in_parts(kMostParts));
}

TEST(Gemm, HasThePrecisionOfItsParts) {
  if (bf16_multiply_for(1) == nullptr) GTEST_SKIP() << "this CPU multiplies no faster in bf16";
  expect_exact_everywhere(gemm_in_parts(2), bf16_multiply_for(2) != nullptr ? 3e-5 : 1e-6);
  expect_exact_everywhere(gemm_in_parts(1), 8e-3);
}

TEST(Gemm, IsExactInAvx512) {
  if (avx512_tile_kernels() == nullptr) GTEST_SKIP() << "this CPU has no AVX-512";
  expect_exact_everywhere(gemm_by_tiles(*avx512_tile_kernels()));
}

TEST(Gemm, IsExactInAvx2) {
  if (avx2_tile_kernels() == nullptr) GTEST_SKIP() << "this CPU has no AVX2";
  expect_exact_everywhere(gemm_by_tiles(*avx2_tile_kernels()));
}

TEST(Gemm, IsExactInTilesAsWideAsAvx512s) {
  expect_exact_everywhere(gemm_by_tiles(testing::portable_tiles()));
}

TEST(Gemm, IsExactForFewRows) {
  for (const TileKernels* const kernels : {avx512_tile_kernels(), avx2_tile_kernels(), &testing::portable_tiles()}) {
    if (kernels == nullptr) continue;
    const Gemm few = [&](Transposed, int64_t m, int64_t n, int64_t k, float alpha, Matrix a, Matrix b, float beta,
                         float* c, int64_t c_stride) {
      few_rows_gemm(*kernels, m, n, k, alpha, {a.data, a.stride, 1},
                    PlainOperand(*kernels, {b.data, 1, b.stride}, n, k), beta, c, c_stride);
    };
    for (const Size& size : kSizes)
      for (const float beta : {0.0F, 1.0F, -0.5F})
        if (size.m <= kernels->columns() && size.k > 0) expect_exact(few, Transposed::kSecond, size, 0.75F, beta, 1e-6);
  }
}

// Few rows with transposed weights are multiplied in other ways.
void expect_same_bits(const TileKernels& in_avx512, const TileKernels& in_avx2, int64_t m, int64_t k) {
  constexpr int64_t kN = 260;
  ASSERT_TRUE(has_few_rows(in_avx512, 1, kN, k));
  std::mt19937 random(1);
  const auto b = matrix(kN, k, k, random), a = matrix(m, k, k, random), by_terms = matrix(k, m, m, random);
  const Strided transposed{b.data(), 1, k};
  for (const auto& [rows, name] : {std::pair{Strided{a.data(), k, 1}, "rows"}, {Strided{by_terms.data(), 1, m}, "terms"}})
    for (const float beta : {0.0F, 0.5F}) {
      SCOPED_TRACE(::testing::Message() << m << " rows of a, by " << name << ", " << k << " terms, beta " << beta);
      std::vector<float> wide(m * kN, 1), narrow = wide, alone = wide;
      tiled_gemm(in_avx512, m, kN, k, 0.3F, rows, transposed, beta, wide.data(), kN);
      tiled_gemm(in_avx2, m, kN, k, 0.3F, rows, transposed, beta, narrow.data(), kN);
      for (int64_t row = 0; row < m; ++row)
        tiled_gemm(in_avx512, 1, kN, k, 0.3F, rows.at(row, 0), transposed, beta, alone.data() + row * kN, kN);
      EXPECT_EQ(wide, narrow);
      EXPECT_EQ(wide, alone);
    }
}

TEST(Gemm, HasTheSameBitsInWideAndNarrowTilesAndForEachRowAlone) {
  if (avx2_tile_kernels() == nullptr) GTEST_SKIP() << "this CPU has no AVX2";
  for (const int64_t k : {600, 1024})  // 1,024 numbers from a row to the next share a set of the cache
    for (const int64_t m : {2, 3, 7, 12, 16, 30, 70})
      expect_same_bits(avx512_tile_kernels() ? *avx512_tile_kernels() : testing::portable_tiles(), *avx2_tile_kernels(),
                       m, k);
}

}  // namespace
}  // namespace trainer::nn
