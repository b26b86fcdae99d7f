#include <cstdlib>

#include "engine/base/log.h"
#include "engine/cli/flags.h"
#include "engine/cli/worker.h"
#include "engine/cli/worker_child.h"
#include "engine/config/environment.h"
#include "engine/launch/run.h"

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

/// mpirun starts as many launchers as it was asked for ranks, and each would start all of them.
void refuse_to_be_a_rank() {
  const char* const copies = std::getenv("OMPI_COMM_WORLD_SIZE");
  if (copies == nullptr || std::atoi(copies) < 2) return;
  throw ConfigError(
      "mpirun started {} copies of `trainer launch`, which starts the ranks itself\n  run it once, without mpirun: "
      "--num_processes says how many ranks, and training.ddp_backend: mpi that they talk by MPI",
      copies);
}

}  // namespace

int run_launch(const Arguments& arguments) {
  CLI::App app("Runs a configuration.", "launch");
  PlanFlags flags(app);
  if (!flags.parse(arguments)) return 0;
  refuse_to_be_a_rank();
  const config::Plan plan = resolve(flags);
  for (const std::string& warning : config::spoken_warnings(plan)) log::warning("warning: {}", warning);
  if (const std::string reading = config::machine_reading(plan); !reading.empty()) log::info("{}", reading);
  prepare_path();
  // Before the ranks meet: they would wait for each other, and for the slowest disk, inside a collective.
  return launch::run(plan, worker_path(), {.join = flags.join_timeout()}, [&plan] { return run_prepare(plan); });
}

}  // namespace trainer::cli
