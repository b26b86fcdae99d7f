// The first ranks of a world, as strategies need them.
#pragma once

#include <map>
#include <memory>
#include <utility>

#include "engine/dist/comm.h"
#include "engine/selftest/setting.h"

namespace trainer::selftest {

/// Communicators of the first ranks of `world`, each made once.
class FirstRanks {
 public:
  explicit FirstRanks(dist::Comm& world) : world_(world) {}

  /// Whether this rank is one of those that `strategy` takes.
  bool include_this(const Strategy& strategy) const { return world_.rank() < strategy.ranks; }
  /// Collective over the ranks that `strategy` takes.
  dist::Comm& of(const Strategy& strategy);

 private:
  dist::Comm& world_;
  std::map<std::pair<int, bool>, std::unique_ptr<dist::Comm>> made_;
};

}  // namespace trainer::selftest
