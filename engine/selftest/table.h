// The results of a self-test as text.
#pragma once

#include <string>
#include <vector>

#include "engine/selftest/run.h"

namespace trainer::selftest {

/// A row per strategy and a column per model, full and LoRA: the largest difference from one rank; then one line per
/// mismatch, and the verdict.
std::string table(const std::vector<Result>& results);

}  // namespace trainer::selftest
