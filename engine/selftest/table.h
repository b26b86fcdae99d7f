// The results of a self-test, for people.
#pragma once

#include <string>
#include <vector>

#include "engine/selftest/run.h"

namespace trainer::selftest {

/// A row for each strategy, a column for each model, full and LoRA: the largest difference from one rank; below it what
/// does not fit, one line each, and the verdict.
std::string table(const std::vector<Result>& results);

}  // namespace trainer::selftest
