#include "engine/config/optimizers.h"

#include <algorithm>
#include <vector>

#include <fmt/ranges.h>

#include "engine/base/listed.h"

namespace trainer::config {

const OptimizerOptions& options_of(OptimizerName optim) {
  return *std::find_if(std::begin(kOptimizers), std::end(kOptimizers),
                       [&](const auto& row) { return row.optim == optim; });
}

std::string families_where(bool (*property)(const OptimizerOptions&)) {
  std::vector<std::string_view> families;
  for (const OptimizerOptions& row : kOptimizers)
    if (property(row) && std::find(families.begin(), families.end(), row.family) == families.end())
      families.push_back(row.family);
  return listed(families, "or");
}

std::string arguments_of_all() {
  std::vector<std::string> all;
  for (const OptimizerOptions& row : kOptimizers) {
    if (row.args.empty()) continue;
    std::vector<std::string_view> names;
    for (const OptimArg& arg : row.args) names.push_back(arg.name);
    all.push_back(fmt::format("for {} {}", row.family, listed(names, "and")));
  }
  return fmt::format("{}", fmt::join(all, "; "));
}

}  // namespace trainer::config
