#include "engine/dist/comm.h"

#include <atomic>
#include <cstdlib>
#include <numeric>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "engine/dist/shared_sum.h"
#include "tests/support/ranks.h"

namespace trainer::testing {
namespace {

struct Ranks {
  int count;
  bool over_gloo;
};

class Collectives : public ::testing::TestWithParam<Ranks> {
 protected:
  void run(const std::function<void(dist::Comm&)>& body) {
    GetParam().over_gloo ? run_gloo_ranks(GetParam().count, body) : run_ranks(GetParam().count, body);
  }
};

TEST_P(Collectives, RanksAndSizesAreCorrect) {
  run([&](dist::Comm& comm) {
    EXPECT_EQ(comm.size(), GetParam().count);
    EXPECT_EQ(comm.sum(1 << comm.rank()), (1 << GetParam().count) - 1);
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

/// Equal bits, except over MPI, which adds in an order of its own.
bool same_sums(const at::Tensor& a, const at::Tensor& b) {
  const bool mpi = std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr;
  return mpi ? (a - b).abs().max().item<double>() < 1e-4 : at::equal(a, b);
}

at::Tensor values_of_rank(const dist::Comm& comm, int64_t count) {
  return (at::arange(count, at::kDouble) * (12.9898 + comm.rank())).sin().mul(3).to(at::kFloat);
}

/// Zeros that the ranks share, a row for each.
at::Tensor shared_rows(dist::Comm& comm, int64_t columns) {
  const at::Tensor memory = comm.shared_memory(comm.size() * columns * 4);
  EXPECT_TRUE(memory.defined());
  return memory.view(at::kFloat).view({comm.size(), columns});
}

TEST_P(Collectives, SumsInSharedMemoryHaveTheBitsOfReduceScatter) {
  if (GetParam().over_gloo) GTEST_SKIP() << "these ranks share no memory";
  run([&](dist::Comm& comm) {
    if (comm.size() == 1) return;
    for (const int64_t count : {1, 5, 4097, 262147, 1000003}) {
      SCOPED_TRACE(count);
      const at::Tensor mine = values_of_rank(comm, count * comm.size()), rows = shared_rows(comm, mine.numel());
      rows[comm.rank()].copy_(mine);
      const at::Tensor sum = at::full({count}, 7.0F);
      dist::sum_shared(comm, rows, sum, /*add=*/false);
      auto [part, pending] = comm.reduce_scatter(mine.clone());
      pending->wait();
      EXPECT_TRUE(same_sums(sum, part));
      rows[comm.rank()].copy_(mine * 2);  // all ranks have read it
      dist::sum_shared(comm, rows, sum, /*add=*/true);
      EXPECT_TRUE(same_sums(sum, part + part * 2));
    }
  });
}

TEST_P(Collectives, SumsInAllRowsOfSharedMemoryHaveTheBitsOfAllReduce) {
  if (GetParam().over_gloo) GTEST_SKIP() << "these ranks share no memory";
  run([&](dist::Comm& comm) {
    if (comm.size() == 1) return;
    for (const std::vector<int64_t>& sizes :
         std::vector<std::vector<int64_t>>{{1}, {0, 1, 3}, {5, 4097, 2}, {300007, 1, 262147, 700001}}) {
      const int64_t all = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
      SCOPED_TRACE(all);
      const at::Tensor mine = values_of_rank(comm, all), rows = shared_rows(comm, all);
      for (const double factor : {1.0, 2.0}) {
        rows[comm.rank()].copy_(mine * factor);
        dist::sum_shared_everywhere(comm, rows, sizes);
        const at::Tensor expected = mine * factor;
        int64_t at = 0;
        for (const int64_t size : sizes) {
          if (size > 0) comm.all_reduce(expected.narrow(0, at, size));
          at += size;
        }
        EXPECT_TRUE(same_sums(rows[comm.rank()], expected));
      }
    }
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
  if (GetParam().over_gloo) GTEST_SKIP() << "needs shared memory to see what the others have done";
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

TEST_P(Collectives, SizesAroundThoseOfBuffers) {
  run([&](dist::Comm& comm) {
    const int64_t n = comm.size();
    for (const int64_t count : {0, 1, 4095, 4097, 65536, 65537, 400001}) {
      SCOPED_TRACE(count);
      const at::Tensor ids = at::arange(count).to(at::kFloat).remainder(1000), x = ids * (comm.rank() + 1);
      comm.all_reduce(x);
      EXPECT_TRUE(at::equal(x, ids * (n * (n + 1) / 2)));
      const at::Tensor full = at::empty({count * n});
      comm.all_gather(full, ids + comm.rank())->wait();
      for (int64_t r = 0; r < n; ++r) EXPECT_TRUE(at::equal(full.narrow(0, r * count, count), ids + r));
      auto [part, pending] = comm.reduce_scatter(full + comm.rank());
      pending->wait();
      EXPECT_TRUE(at::equal(part, (ids + comm.rank()) * n + n * (n - 1) / 2));
    }
  });
}

TEST_P(Collectives, ReducedDtypesAreRoundedPerRankAtMost) {
  run([&](dist::Comm& comm) {
    const at::Tensor x = at::full({5}, 1 + comm.rank() / 128.0, at::kBFloat16);
    double sum = 0;
    for (int r = 0; r < comm.size(); ++r) sum += 1 + r / 128.0;
    comm.all_reduce(x);
    EXPECT_NEAR(x[0].item<double>(), sum, sum / 128);
  });
}

TEST_P(Collectives, WaitsMayComeInAnyOrder) {
  run([&](dist::Comm& comm) {
    const int n = comm.size();
    const at::Tensor first = at::empty({100000 * n}), second = at::empty({3 * n});
    auto a = comm.all_gather(first, at::full({100000}, 1.0 * comm.rank()));
    auto b = comm.all_gather(second, at::full({3}, 7.0 + comm.rank()));
    EXPECT_EQ(comm.sum(1), n);
    b->wait();
    a->wait();
    for (int r = 0; r < n; ++r) {
      EXPECT_EQ(first[100000 * r].item<double>(), r);
      EXPECT_EQ(second[3 * r + 2].item<double>(), 7.0 + r);
    }
  });
}

// As pipeline stages do: nobody receives before it has sent.
TEST_P(Collectives, EveryRankMaySendMuchBeforeItReceives) {
  run([&](dist::Comm& comm) {
    const int n = comm.size(), next = (comm.rank() + 1) % n, before = (comm.rank() + n - 1) % n;
    if (n == 1) return;
    constexpr int64_t kCount = 1500000;  // 6 MB
    std::vector<std::unique_ptr<dist::Pending>> sent;
    std::vector<at::Tensor> messages;
    for (int i = 0; i < 3; ++i) {
      messages.push_back(at::arange(kCount).to(at::kFloat).add(10 * comm.rank() + i));
      sent.push_back(comm.send(messages.back(), next));
    }
    comm.barrier();
    for (int i = 0; i < 3; ++i) {
      const at::Tensor got = at::empty({kCount});
      comm.receive(got, before)->wait();
      EXPECT_TRUE(at::equal(got, at::arange(kCount).to(at::kFloat).add(10 * before + i)));
    }
    for (const auto& pending : sent) pending->wait();
  });
}

// A run on one machine equals one on several, bit for bit.
TEST(SharedMemoryAndGloo, SumsHaveTheSameBits) {
  for (const int ranks : {2, 3, 4, 5}) {
    std::vector<at::Tensor> of[2];  // of rank 0
    for (const bool gloo : {false, true})
      (gloo ? run_gloo_ranks : [](int count, const std::function<void(dist::Comm&)>& body) { run_ranks(count, body); })(
          ranks, [&](dist::Comm& comm) {
            for (const at::ScalarType dtype : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16})
              for (const int64_t count : {1, 2, 5, 7, 24, 100, 1001, 4097, 30000, 262147, 3000001}) {
                if (count > 300000 && dtype != at::kFloat) continue;
                const at::Tensor x =
                    (at::arange(count, at::kDouble) * (12.9898 + comm.rank())).sin().mul(3).to(dtype);
                const at::Tensor all = x.clone(), padded = at::zeros({(count + ranks - 1) / ranks * ranks}, dtype);
                padded.narrow(0, 0, count).copy_(x);
                comm.all_reduce(all);
                auto [part, pending] = comm.reduce_scatter(padded);
                pending->wait();
                if (comm.rank() != ranks - 1) continue;
                of[gloo].push_back(all);
                of[gloo].push_back(part.clone());
              }
          });
    ASSERT_EQ(of[0].size(), of[1].size());
    for (size_t i = 0; i < of[0].size(); ++i)
      EXPECT_TRUE(at::equal(of[0][i], of[1][i]))
          << ranks << " ranks, " << of[0][i].numel() << " values of " << c10::toString(of[0][i].scalar_type());
  }
}

// MPI's ranks are those of mpirun (tests/support/mpi_ranks.cpp): for them both kinds are the same.
INSTANTIATE_TEST_SUITE_P(Ranks, Collectives,
                         ::testing::Values(Ranks{1, false}, Ranks{2, false}, Ranks{3, false}, Ranks{4, false},
                                           Ranks{2, true}, Ranks{3, true}, Ranks{4, true}),
                         [](const auto& info) {
                           return std::to_string(info.param.count) + (info.param.over_gloo ? "_gloo" : "");
                         });

}  // namespace
}  // namespace trainer::testing
