#include "tests/support/ranks.h"

#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "engine/dist/gloo_comm.h"

namespace trainer::testing {

void run_ranks(int count, const std::function<void(dist::Comm&)>& body, bool share_memory) {
  if (count == 1) return body(*dist::solo_comm());
  const auto store = c10::make_intrusive<c10d::HashStore>();
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < count; ++rank)
    ranks.emplace_back([&, rank] {
      try {
        const auto comm = dist::gloo_comm(store, rank, count, share_memory);
        body(*comm);
        comm->barrier();
      } catch (const std::exception& error) {
        ADD_FAILURE() << "rank " << rank << ": " << error.what();
        std::abort();  // the other ranks would wait for it forever
      }
    });
  for (std::thread& rank : ranks) rank.join();
}

}  // namespace trainer::testing
