#include <fmt/format.h>

#include "engine/cli/flags.h"
#include "engine/cli/problem_report.h"
#include "engine/cli/worker.h"

namespace trainer::cli {

int run_check(const Arguments& arguments) {
  CLI::App app("Finds what is wrong with a configuration and the files it names, without starting a run.", "check");
  app.footer("  --json: as one JSON object on standard output, for scripts\n");
  PlanFlags flags(app);
  bool json = false;
  app.add_flag("--json", json);
  if (!flags.parse(arguments)) return 0;
  config::Plan plan;
  try {
    plan = flags.resolve(/*to_run=*/false);
  } catch (const ConfigError& error) {
    const auto problems = problems_of(error);
    if (json) {
      fmt::print("{}\n", problem_json(problems));
    } else {
      fmt::print(stderr, "{}", problem_report(problems, wants_colour()));
    }
    return kUsageFailure;
  }
  become_worker(json ? Arguments{"check", "--json"} : Arguments{"check"}, &plan);
}

}  // namespace trainer::cli
