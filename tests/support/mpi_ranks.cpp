// Runs the ranks of tests over MPI: programs that mpirun starts link this file instead of ranks.cpp.
#include <cstdlib>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "engine/dist/mpi_comm.h"
#include "tests/support/ranks.h"

namespace trainer::testing {
namespace {

int number(const char* variable) {
  const char* const text = std::getenv(variable);
  if (text == nullptr) std::abort();  // must be started by mpirun
  return std::atoi(text);
}

dist::Comm& world() {
  static const auto comm = dist::mpi_comm(number("OMPI_COMM_WORLD_RANK"), number("OMPI_COMM_WORLD_SIZE"));
  return *comm;
}

}  // namespace

/// Runs `body` on the first `count` ranks, in a separate group if there are more.
void run_ranks(int count, const std::function<void(dist::Comm&)>& body, bool) {
  if (count > world().size()) GTEST_SKIP() << "mpirun started " << world().size() << " ranks";
  try {
    if (world().rank() < count) {
      std::vector<int> members(static_cast<size_t>(count));
      std::iota(members.begin(), members.end(), 0);
      const auto some = world().group("first", members);
      body(count == world().size() ? world() : *some);
    }
    world().barrier();
  } catch (const std::exception& error) {
    ADD_FAILURE() << "rank " << world().rank() << ": " << error.what();
    std::abort();  // mpirun ends the others
  }
}

void run_gloo_ranks(int count, const std::function<void(dist::Comm&)>& body) {
  run_ranks(count, body, true);
}

}  // namespace trainer::testing
