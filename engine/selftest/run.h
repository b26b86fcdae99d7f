// The self-test: every strategy gives the numbers of one rank.
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

/// Collective over `world`: trains every setting in the first ranks of the world, and compares with one rank. `done`
/// is told every result, on rank 0. Returns the results on rank 0.
std::vector<Result> run(const std::vector<Setting>& settings, dist::Comm& world,
                        const std::function<void(const Result&)>& done);

}  // namespace trainer::selftest
