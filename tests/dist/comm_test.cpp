#include "engine/dist/comm.h"

#include <atomic>

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include "tests/support/ranks.h"

namespace trainer::testing {
namespace {

class Collectives : public ::testing::TestWithParam<int> {
 protected:
  void run(const std::function<void(dist::Comm&)>& body) { run_ranks(GetParam(), body); }
};

TEST_P(Collectives, RanksKnowWhoTheyAre) {
  std::atomic<int> seen{0};
  run([&](dist::Comm& comm) {
    EXPECT_EQ(comm.size(), GetParam());
    seen += 1 << comm.rank();
  });
  EXPECT_EQ(seen, (1 << GetParam()) - 1);
}

TEST_P(Collectives, GatherPutsShardsInTheOrderOfRanks) {
  run([&](dist::Comm& comm) {
    for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kByte}) {
      const at::Tensor full = at::empty({5 * comm.size()}, dtype);
      comm.all_gather(full, at::arange(5).add(5 * comm.rank()).to(dtype))->wait();
      EXPECT_TRUE(at::equal(full, at::arange(5 * comm.size()).to(dtype)));
    }
  });
}

TEST_P(Collectives, ReduceScatterGivesThisRanksPartOfTheSum) {
  run([&](dist::Comm& comm) {
    const int64_t n = comm.size();
    const at::Tensor part = comm.reduce_scatter(at::arange(3 * n).to(at::kFloat) * (comm.rank() + 1));
    EXPECT_TRUE(at::equal(part, at::arange(3).add(3 * comm.rank()).to(at::kFloat) * (n * (n + 1) / 2)));
  });
}

TEST_P(Collectives, AllReduceGivesTheSameBitsEverywhere) {
  run([&](dist::Comm& comm) {
    const at::Tensor x = (at::arange(1000).to(at::kFloat) * (0.1 + comm.rank())).sin(), own = x.clone();
    comm.all_reduce(x);
    const at::Tensor all = at::empty({1000 * comm.size()}), inputs = at::empty({1000 * comm.size()});
    comm.all_gather(all, x)->wait();
    comm.all_gather(inputs, own)->wait();
    for (int64_t r = 0; r < comm.size(); ++r) EXPECT_TRUE(at::equal(all.narrow(0, 1000 * r, 1000), x));
    EXPECT_LT((inputs.view({comm.size(), 1000}).to(at::kDouble).sum(0) - x).abs().max().item<double>(), 1e-6);
  });
}

TEST_P(Collectives, SumsAndMaximaOfHostValues) {
  run([&](dist::Comm& comm) {
    const int n = comm.size();
    EXPECT_EQ(comm.sum(comm.rank() + 0.25), n * (n - 1) / 2 + 0.25 * n);
    EXPECT_EQ(comm.max(-1.0 - comm.rank()), -1.0);
    EXPECT_EQ(comm.max(comm.rank()), n - 1.0);
    EXPECT_EQ(comm.sum(9007199254740992.0 / n), 9007199254740992.0 / n * n);  // in double
  });
}

TEST_P(Collectives, TextsOfAnyLengthAndContentAreGathered) {
  run([&](dist::Comm& comm) {
    const auto text_of = [](int rank) {
      return rank == 1 ? std::string() : std::string("a\0\xff b", 5) + std::string(rank * 5000, 'x');
    };
    const auto all = comm.gather_text(text_of(comm.rank()));
    ASSERT_EQ(all.size(), static_cast<size_t>(comm.size()));
    for (int r = 0; r < comm.size(); ++r) EXPECT_EQ(all[r], text_of(r)) << "rank " << r;
    for (const std::string& text : comm.gather_text("")) EXPECT_EQ(text, "");
  });
}

TEST_P(Collectives, ABarrierWaitsForAll) {
  std::atomic<int> arrived{0};
  run([&](dist::Comm& comm) {
    ++arrived;
    comm.barrier();
    EXPECT_EQ(arrived, comm.size());
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, Collectives, ::testing::Values(1, 2, 3),
                         [](const auto& info) { return std::to_string(info.param); });

}  // namespace
}  // namespace trainer::testing
