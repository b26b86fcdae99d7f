// What distinguishes the configurations of several runs.
#pragma once

#include <string>
#include <vector>

#include "engine/report/run_folder.h"

namespace trainer::report {

struct Difference {
  std::string key;
  std::vector<std::string> values;  // of each run; "" where the option is not set
};

/// The options whose values are not the same in all runs, except for output_dir.
std::vector<Difference> differences_of(const std::vector<RunFolder>& runs);

}  // namespace trainer::report
