#include "engine/cli/flags.h"
#include "engine/cli/worker.h"

namespace trainer::cli {

int run_check(const Arguments& arguments) {
  CLI::App app("Finds what is wrong with a configuration and the files it names, without starting a run.", "check");
  PlanFlags flags(app);
  if (!parse(app, arguments)) return 0;
  const config::Plan plan = flags.resolve();
  become_worker({"check"}, &plan);
}

}  // namespace trainer::cli
