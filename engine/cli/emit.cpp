#include "engine/cli/emit.h"

#include <algorithm>
#include <filesystem>

#include <fmt/ranges.h>

#include "engine/base/edit_distance.h"
#include "engine/base/errors.h"
#include "engine/config/clusters/cluster_job.h"
#include "engine/config/document/problems.h"

namespace trainer::cli {
namespace {

/// The arguments without --emit and its value.
Arguments without_emit(const Arguments& arguments) {
  Arguments kept;
  for (auto word = arguments.begin(); word != arguments.end(); ++word) {
    if (word->starts_with("--emit=")) continue;
    if (*word != "--emit")
      kept.push_back(*word);
    else if (word + 1 != arguments.end())
      ++word;
  }
  return kept;
}

}  // namespace

int emit(const std::string& kind, const PlanFlags& flags, const Arguments& arguments) {
  const auto& kinds = config::cluster_kinds();
  if (std::find(kinds.begin(), kinds.end(), kind) == kinds.end())
    throw ConfigError("--emit {}: must be one of {}{}", config::shown(kind), fmt::join(kinds, ", "),
                      did_you_mean(kind, kinds));
  const config::Plan plan = flags.resolve_for_scheduler();
  Arguments kept = without_emit(arguments);
  if (!flags.names_file()) kept.insert(kept.begin(), {"--config_file", plan.source});
  const std::string program = std::filesystem::read_symlink("/proc/self/exe");
  fmt::print("{}", config::cluster_text(
                       kind, config::cluster_job(plan, kept, program, std::filesystem::current_path().string())));
  return 0;
}

}  // namespace trainer::cli
