#include "engine/dist/comm.h"

#include <atomic>
#include <numeric>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include "tests/support/ranks.h"

namespace trainer::testing {
namespace {

class Collectives : public ::testing::TestWithParam<int> {
 protected:
  void run(const std::function<void(dist::Comm&)>& body) { run_ranks(GetParam(), body); }
};

TEST_P(Collectives, RanksAndSizesAreCorrect) {
  run([&](dist::Comm& comm) {
    EXPECT_EQ(comm.size(), GetParam());
    EXPECT_EQ(comm.sum(1 << comm.rank()), (1 << GetParam()) - 1);
  });
}

TEST_P(Collectives, GatherConcatenatesShardsInRankOrder) {
  run([&](dist::Comm& comm) {
    for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kByte}) {
      const at::Tensor full = at::empty({5 * comm.size()}, dtype);
      comm.all_gather(full, at::arange(5).add(5 * comm.rank()).to(dtype))->wait();
      EXPECT_TRUE(at::equal(full, at::arange(5 * comm.size()).to(dtype)));
    }
  });
}

TEST_P(Collectives, ReduceScatterReturnsThisRanksShardOfTheSum) {
  run([&](dist::Comm& comm) {
    const int64_t n = comm.size();
    auto [part, pending] = comm.reduce_scatter(at::arange(3 * n).to(at::kFloat) * (comm.rank() + 1));
    pending->wait();
    EXPECT_TRUE(at::equal(part, at::arange(3).add(3 * comm.rank()).to(at::kFloat) * (n * (n + 1) / 2)));
  });
}

TEST_P(Collectives, AllReduceIsBitwiseEqualOnEveryRank) {
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

TEST_P(Collectives, GathersTextsOfAnyLengthAndContent) {
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
  run([&](dist::Comm& comm) {
    const at::Tensor memory = comm.shared_memory(sizeof(int));
    const std::atomic_ref<int> arrived(*reinterpret_cast<int*>(memory.mutable_data_ptr()));
    ++arrived;
    comm.barrier();
    EXPECT_EQ(arrived.load(), comm.size());
  });
}

TEST_P(Collectives, AllReduceSupportsEveryDtype) {
  run([&](dist::Comm& comm) {
    const int64_t n = comm.size();
    for (const at::ScalarType dtype :
         {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kInt, at::kLong, at::kByte, at::kChar}) {
      SCOPED_TRACE(c10::toString(dtype));
      const at::Tensor x = at::arange(7).add(comm.rank()).to(dtype), y = x.clone();
      comm.all_reduce(x, dist::Reduce::kSum);
      EXPECT_TRUE(at::equal(x, (at::arange(7) * n + n * (n - 1) / 2).to(dtype)));
      comm.all_reduce(y, dist::Reduce::kMax);
      EXPECT_TRUE(at::equal(y, at::arange(7).add(n - 1).to(dtype)));
    }
  });
}

TEST_P(Collectives, BroadcastIsBitwiseExact) {
  run([&](dist::Comm& comm) {
    const int last = comm.size() - 1;
    const at::Tensor x = comm.rank() == last ? at::full({3}, -0.0) : at::full({3}, 5.0);
    comm.broadcast(x, last);
    EXPECT_TRUE(at::equal(x.view(at::kInt), at::full({3}, -0.0).view(at::kInt)));
  });
}

TEST_P(Collectives, SendsAndReceivesMatchInOrder) {
  run([&](dist::Comm& comm) {
    const int n = comm.size(), next = (comm.rank() + 1) % n, before = (comm.rank() + n - 1) % n;
    if (n == 1) return;
    const at::Tensor large = at::full({300000}, 1.0 * comm.rank()), small = at::full({2}, comm.rank() + 0.5);
    const at::Tensor got_large = at::empty({300000}), got_small = at::empty({2});
    const auto a = comm.send(large, next), b = comm.send(small, next);
    comm.receive(got_large, before)->wait();
    comm.receive(got_small, before)->wait();
    a->wait();
    b->wait();
    EXPECT_TRUE(at::equal(got_large, at::full({300000}, 1.0 * before)));
    EXPECT_TRUE(at::equal(got_small, at::full({2}, before + 0.5)));
  });
}

TEST_P(Collectives, AGroupHasItsOwnRanksAndTraffic) {
  run([&](dist::Comm& comm) {
    const int n = comm.size();
    std::vector<int> ranks;
    for (int rank = comm.rank() % 2; rank < n; rank += 2) ranks.insert(ranks.begin(), rank);  // in descending order
    const auto group = comm.group("half", ranks);
    EXPECT_EQ(group->size(), static_cast<int>(ranks.size()));
    EXPECT_EQ(ranks[static_cast<size_t>(group->rank())], comm.rank());
    EXPECT_EQ(group->sum(comm.rank()), std::accumulate(ranks.begin(), ranks.end(), 0));
    EXPECT_EQ(comm.sum(1), n);
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, Collectives, ::testing::Values(1, 2, 3, 4),
                         [](const auto& info) { return std::to_string(info.param); });

}  // namespace
}  // namespace trainer::testing
