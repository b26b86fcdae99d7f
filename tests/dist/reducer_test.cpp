// DDP's reduction of gradients, and their compression.
#include <cmath>

#include <gtest/gtest.h>

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/norm.h>
#include <ATen/ops/sin.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/autograd.h>

#include "engine/dist/bucket_reducer.h"
#include "tests/support/ranks.h"

namespace trainer::testing {
namespace {

using Tensors = std::vector<at::Tensor>;

/// Deterministic positive and negative numbers.
at::Tensor numbers(at::IntArrayRef shape, double seed) {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  return (at::arange(count, at::kDouble) * 12.9898 + seed * 78.233).sin().to(at::kFloat).view(shape);
}

/// Three leaves: two matrices and a vector.
Tensors make_leaves() {
  Tensors leaves;
  for (const auto& shape : std::vector<std::vector<int64_t>>{{24, 18}, {30}, {15, 2, 10}}) {
    leaves.push_back(numbers(shape, 0).set_requires_grad(true));
    leaves.back().mutable_grad() = at::zeros_like(leaves.back());
  }
  return leaves;
}

/// The gradient of leaf `i` on `rank` in update `update`.
at::Tensor gradient(const at::Tensor& leaf, size_t i, int rank, int update) {
  return numbers(leaf.sizes(), 1.0 + 7.0 * static_cast<double>(i) + 31.0 * rank + 101.0 * update);
}

constexpr int kRanks = 3;

/// The gradients on rank 0 after each of `updates` updates. Checks that all ranks agree.
std::vector<Tensors> exchanged(const dist::GradientExchange& exchange, int updates, double megabytes = 25) {
  std::vector<Tensors> all;
  run_ranks(kRanks, [&](dist::Comm& comm) {
    const Tensors leaves = make_leaves();
    dist::GradientExchange small = exchange;
    small.bucket_megabytes = megabytes;
    dist::BucketReducer reducer(leaves, comm, small);
    for (int update = 0; update < updates; ++update) {
      at::Tensor loss;
      for (size_t i = 0; i < leaves.size(); ++i) {
        const at::Tensor part = (leaves[i] * gradient(leaves[i], i, comm.rank(), update)).sum();
        loss = loss.defined() ? loss + part : part;
      }
      reducer.reduce_next_backward(loss);
      torch::autograd::backward({loss}, {});
      Tensors found;
      for (const at::Tensor& leaf : leaves) {
        found.push_back(leaf.grad().clone());
        const at::Tensor other = leaf.grad().clone();
        comm.broadcast(other, 1);
        EXPECT_TRUE(other.equal(leaf.grad()));
        leaf.grad().zero_();
      }
      if (comm.rank() == 0) all.push_back(std::move(found));
    }
  });
  return all;
}

double distance(const at::Tensor& a, const at::Tensor& b) {
  return ((a - b).norm() / b.norm()).item<double>();
}

const std::vector<Tensors>& plain() {
  static const std::vector<Tensors> found = exchanged({}, 4);
  return found;
}

TEST(Reducer, SumsGradients) {
  const Tensors leaves = make_leaves();
  for (size_t i = 0; i < leaves.size(); ++i) {
    at::Tensor sum = at::zeros_like(leaves[i]).detach();
    for (int rank = 0; rank < kRanks; ++rank) sum = sum + gradient(leaves[i], i, rank, 2);
    EXPECT_LT(distance(plain()[2][i], sum), 1e-6);
  }
}

TEST(Reducer, SendsInTheRequestedDtype) {
  for (const auto& [dtype, digits] : {std::pair{at::kHalf, 11}, std::pair{at::kBFloat16, 8}}) {
    dist::GradientExchange exchange;
    exchange.sent_as = dtype;
    const auto found = exchanged(exchange, 1, 0.001);
    for (size_t i = 0; i < found[0].size(); ++i) {
      EXPECT_LT(distance(found[0][i], plain()[0][i]), kRanks * std::ldexp(1.0, -digits));
      EXPECT_GT(distance(found[0][i], plain()[0][i]), std::ldexp(1.0, -digits - 4));
    }
  }
}

TEST(Reducer, UnusedParametersGetZeroGradients) {
  run_ranks(2, [](dist::Comm& comm) {
    const Tensors leaves = make_leaves();
    dist::BucketReducer reducer(leaves, comm, {});
    for (int update = 0; update < 3; ++update) {
      // No rank uses the first leaf; only rank 0 uses the second.
      at::Tensor loss = (leaves[2] * static_cast<double>(comm.rank() + 1)).sum();
      if (comm.rank() == 0) loss = loss + (leaves[1] * 5.0).sum();
      reducer.reduce_next_backward(loss);
      torch::autograd::backward({loss}, {});
      const double expected[] = {0, 5, 3};
      for (size_t i = 0; i < leaves.size(); ++i) {
        EXPECT_EQ(leaves[i].grad().min().item<double>(), expected[i]);
        EXPECT_EQ(leaves[i].grad().max().item<double>(), expected[i]);
        leaves[i].grad().zero_();
      }
    }
  });
}

dist::GradientExchange power_sgd(int64_t rank, bool batched = false) {
  dist::GradientExchange exchange;
  exchange.power_sgd = {.batched = batched, .rank = rank, .start_iteration = 0, .min_compression_rate = 0};
  return exchange;
}

TEST(PowerSgd, IsExactAtFullRank) {
  for (const bool batched : {false, true}) {
    const auto found = exchanged(power_sgd(1000, batched), 3);
    for (size_t update = 0; update < found.size(); ++update)
      for (size_t i = 0; i < found[update].size(); ++i)
        EXPECT_LT(distance(found[update][i], plain()[update][i]), 1e-5) << batched << update << i;
  }
}

TEST(PowerSgd, ErrorShrinksWithRankAndVectorsAreExact) {
  const auto one = exchanged(power_sgd(1), 1), six = exchanged(power_sgd(6), 1);
  for (const size_t matrix : {0, 2}) {
    EXPECT_GT(distance(one[0][matrix], plain()[0][matrix]), 0.3);
    EXPECT_LT(distance(six[0][matrix], plain()[0][matrix]), distance(one[0][matrix], plain()[0][matrix]));
  }
  EXPECT_LT(distance(one[0][1], plain()[0][1]), 1e-6);
}

// Later updates compensate for the error of earlier ones: the mean over many updates of the same gradients is correct.
TEST(PowerSgd, ErrorFeedbackRecoversTheSum) {
  for (const bool batched : {false, true})
    run_ranks(kRanks, [&](dist::Comm& comm) {
      dist::PowerSgd sums(comm, *power_sgd(2, batched).power_sgd, at::kFloat);
      const at::Tensor leaf = numbers({12, 9}, 0);
      at::Tensor wanted = at::zeros_like(leaf), got = at::zeros_like(leaf);
      for (int rank = 0; rank < kRanks; ++rank) wanted = wanted + gradient(leaf, 0, rank, 0);
      constexpr int kUpdates = 200;
      for (int update = 0; update < kUpdates; ++update) {
        const at::Tensor mine = gradient(leaf, 0, comm.rank(), 0).clone();
        sums.sum(0, mine.view(-1), {mine});
        got = got + mine;
      }
      EXPECT_LT(distance(got / static_cast<double>(kUpdates), wanted), 0.1) << batched;
    });
}

TEST(PowerSgd, RespectsStartIterationAndMinCompressionRate) {
  dist::GradientExchange later = power_sgd(1), hardly = power_sgd(1);
  later.power_sgd->start_iteration = 2;
  hardly.power_sgd->min_compression_rate = 1000;
  const auto found = exchanged(later, 3);
  EXPECT_TRUE(found[1][0].equal(plain()[1][0]));
  EXPECT_FALSE(found[2][0].equal(plain()[2][0]));
  EXPECT_LT(distance(exchanged(hardly, 1)[0][0], plain()[0][0]), 1e-6);
}

TEST(PowerSgd, IsDeterministicForASeed) {
  dist::GradientExchange other = power_sgd(2);
  other.power_sgd->seed = 5;
  const auto first = exchanged(power_sgd(2), 3), again = exchanged(power_sgd(2), 3), seeded = exchanged(other, 1);
  EXPECT_TRUE(first[2][0].equal(again[2][0]));
  EXPECT_FALSE(first[0][0].equal(seeded[0][0]));
}

}  // namespace
}  // namespace trainer::testing
