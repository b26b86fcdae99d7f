#include "tests/support/ranks.h"

#include <memory>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "engine/dist/shm_comm.h"
#include "engine/dist/unshared_comm.h"

namespace trainer::testing {
namespace {

using Body = std::function<void(dist::Comm&)>;

/// `meet` makes the communicator of a rank.
void run_threads(int count, const Body& body, const std::function<std::unique_ptr<dist::Comm>(int rank)>& meet) {
  if (count == 1) return body(*dist::solo_comm());
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < count; ++rank)
    ranks.emplace_back([&, rank] {
      try {
        const auto comm = meet(rank);
        body(*comm);
        comm->barrier();
      } catch (const std::exception& error) {
        ADD_FAILURE() << "rank " << rank << ": " << error.what();
        std::abort();  // the other ranks would wait for it forever
      }
    });
  for (std::thread& rank : ranks) rank.join();
}

}  // namespace

void run_ranks(int count, const Body& body, bool share_memory) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  run_threads(count, body, [&](int rank) -> std::unique_ptr<dist::Comm> {
    auto comm = dist::cpu_comm(store, rank, count);
    if (share_memory) return comm;
    return std::make_unique<dist::UnsharedComm>(std::move(comm));
  });
}

void run_gloo_ranks(int count, const Body& body) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  run_threads(count, body, [&](int rank) { return dist::gloo_comm(store, rank, count, /*share_memory=*/false); });
}

}  // namespace trainer::testing
