// Compares the records of two runs over the same updates.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace trainer::cli {

/// Updates, both ends included; the first update of a run is 1.
struct Steps {
  int64_t first = 1, last = 1;
};

/// How the records and checkpoints of two runs compare, bit for bit.
struct ReplayReport {
  std::string text;    // for people
  bool equal = false;  // true also when nothing was recorded
};

/// Errors: InputError when metrics.jsonl of either can't be read.
ReplayReport compare_runs(const std::filesystem::path& run, const std::filesystem::path& again, Steps steps);

}  // namespace trainer::cli
