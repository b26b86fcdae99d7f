#include "engine/base/log.h"
#include "engine/cli/flags.h"
#include "engine/cli/worker.h"
#include "engine/cli/worker_child.h"
#include "engine/config/environment.h"
#include "engine/launch/supervisor.h"

namespace trainer::cli {
namespace {

config::Plan resolve(const PlanFlags& flags) {
  try {
    return flags.resolve();
  } catch (const config::ConfigProblems& found) {
    if (found.problems().size() < 2) throw;
    throw ConfigError("{}\n{} problems; `trainer check` with the same arguments shows the lines", found.what(),
                      found.problems().size());
  }
}

}  // namespace

int run_launch(const Arguments& arguments) {
  CLI::App app("Runs a configuration.", "launch");
  PlanFlags flags(app);
  if (!flags.parse(arguments)) return 0;
  const config::Plan plan = resolve(flags);
  for (const std::string& warning : config::spoken_warnings(plan)) log::warning("warning: {}", warning);
  if (const std::string reading = config::machine_reading(plan); !reading.empty()) log::info("{}", reading);
  prepare_path();
  // Before the ranks meet: they would wait for each other, and for the slowest disk, inside a collective.
  return launch::run(plan, worker_path(), {.join = flags.join_timeout()}, [&plan] { return run_prepare(plan); });
}

}  // namespace trainer::cli
