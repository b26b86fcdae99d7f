#include "engine/selftest/first_ranks.h"

#include <numeric>

#include <fmt/format.h>

#include "engine/dist/unshared_comm.h"

namespace trainer::selftest {

dist::Comm& FirstRanks::of(const Strategy& strategy) {
  const auto [ranks, share] = std::pair{strategy.ranks, strategy.share_memory};
  if (ranks == world_.size() && share) return world_;
  auto& comm = made_[{ranks, share}];
  if (comm) return *comm;
  std::vector<int> numbers(static_cast<size_t>(ranks));
  std::iota(numbers.begin(), numbers.end(), 0);
  comm = world_.group(fmt::format("first {}{}", ranks, share ? "" : " sent"), numbers);
  if (!share) comm = std::make_unique<dist::UnsharedComm>(std::move(comm));
  return *comm;
}

}  // namespace trainer::selftest
