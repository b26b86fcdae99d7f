// Communicators of the first ranks of a world, for strategies that need fewer ranks.
#pragma once

#include <map>
#include <memory>
#include <utility>

#include "engine/dist/comm.h"
#include "engine/selftest/setting.h"

namespace trainer::selftest {

/// Communicators of the first ranks of `world`, each created once.
class FirstRanks {
 public:
  explicit FirstRanks(dist::Comm& world) : world_(world) {}

  /// Whether `strategy` uses this rank.
  bool include_this(const Strategy& strategy) const { return world_.rank() < strategy.ranks; }
  /// Collective over the ranks that `strategy` uses.
  dist::Comm& of(const Strategy& strategy);

 private:
  dist::Comm& world_;
  std::map<std::pair<int, bool>, std::unique_ptr<dist::Comm>> made_;
};

}  // namespace trainer::selftest
