#include "engine/cli/flags.h"
#include "engine/cli/worker.h"
#include "engine/launch/supervisor.h"

namespace trainer::cli {

int run_launch(const Arguments& arguments) {
  CLI::App app("Runs a configuration.", "launch");
  PlanFlags flags(app);
  if (!parse(app, arguments)) return 0;
  const config::Plan plan = flags.resolve();
  return launch::run(plan, worker_path());
}

}  // namespace trainer::cli
