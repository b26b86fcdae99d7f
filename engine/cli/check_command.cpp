#include <fmt/format.h>

#include "engine/base/screen.h"
#include "engine/cli/flags.h"
#include "engine/cli/problem_report.h"
#include "engine/cli/worker.h"

namespace trainer::cli {

int run_check(const Arguments& arguments) {
  CLI::App app("Find the problems in a configuration and the files it names, without starting a run.", "check");
  app.footer(
      "  --json: print one JSON object to standard output, for scripts\n"
      "  --gpu_memory N|CARD: GiB of each rank's GPU, or its name (H100, \"A100 80GB\"): a run that needs more is an "
      "error,\n    reported with what would fit; without the flag, the memory of this machine's GPUs\n");
  PlanFlags flags(app);
  bool json = false;
  std::string gpu_memory;
  app.add_flag("--json", json);
  app.add_option("--gpu_memory", gpu_memory);
  if (!flags.parse(arguments)) return 0;
  config::Plan plan;
  try {
    plan = flags.resolve(/*to_run=*/false);
  } catch (const ConfigError& error) {
    const auto problems = problems_of(error);
    if (json) {
      fmt::print("{}\n", problem_json(problems));
    } else {
      screen::error("{}", problem_report(problems, wants_color()));
    }
    return kUsageFailure;
  }
  Arguments words{"check"};
  if (json) words.emplace_back("--json");
  if (!gpu_memory.empty()) words.insert(words.end(), {"--gpu_memory", gpu_memory});
  become_worker(words, &plan);
}

}  // namespace trainer::cli
