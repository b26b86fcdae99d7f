// The self-test: every strategy gives the same results as one rank.
#pragma once

#include <functional>
#include <vector>

#include "engine/dist/comm.h"
#include "engine/selftest/outcome.h"
#include "engine/selftest/setting.h"

namespace trainer::selftest {

struct Result {
  Setting setting;
  Difference difference;
  double seconds = 0;
};

/// Collective over `world`: trains every setting on the first ranks of the world, and compares it with one rank. Rank 0
/// passes every result to `done` and returns all results.
std::vector<Result> run(const std::vector<Setting>& settings, dist::Comm& world,
                        const std::function<void(const Result&)>& done);

}  // namespace trainer::selftest
