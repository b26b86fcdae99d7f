#include <filesystem>

#include "engine/base/errors.h"
#include "engine/base/files.h"
#include "engine/base/first_problems.h"
#include "engine/base/log.h"
#include "engine/base/screen.h"
#include "engine/base/temporary_folder.h"
#include "engine/cli/flags.h"
#include "engine/cli/rank_devices.h"
#include "engine/cli/started_once.h"
#include "engine/cli/worker.h"
#include "engine/cli/worker_child.h"
#include "engine/config/machine/environment.h"
#include "engine/launch/run.h"

namespace trainer::cli {
namespace fs = std::filesystem;
namespace {

struct ProfileFlags {
  int64_t steps = 10, warmup = 3;
  std::string trace;
  bool json = false;
};

/// Errors: ConfigError, with all problems; MachineError when the trace can't be written.
void check(const ProfileFlags& wanted, const config::Plan& plan) {
  std::vector<std::string> problems;
  const auto check_number = [&](const char* flag, int64_t value, int64_t least) {
    if (value < least || value > 10'000)
      problems.push_back(fmt::format("{} {}: must be from {} to 10000", flag, value, least));
  };
  check_number("--steps", wanted.steps, 1);
  check_number("--warmup", wanted.warmup, 0);
  if (plan.config.num_machines > 1)
    problems.push_back(
        fmt::format("the run has {} machines; `trainer profile` measures one: give --num_machines 1 and "
                    "--num_processes, the ranks of one",
                    plan.config.num_machines));
  if (const std::string problem = started_several_times("profile"); !problem.empty()) problems.push_back(problem);
  if (fs::is_directory(wanted.trace)) problems.push_back(fmt::format("--trace {}: is a folder", wanted.trace));
  if (!problems.empty()) throw ConfigError("trainer profile:{}", first_problems(problems));
  if (!wanted.trace.empty()) check_writable(fs::path(wanted.trace).parent_path());
}

/// The same updates without what surrounds them: nothing is resumed, saved, evaluated or reported.
config::Plan measured(const config::Plan& configured, const fs::path& output, const ProfileFlags& wanted) {
  config::Plan plan = configured;
  config::Config& c = plan.config;
  c.output_dir = output.string();
  c.checkpoint = {};
  c.evaluation.eval_steps = 0;
  c.evaluation.eval_on_start = false;
  c.logging = {};
  c.max_restarts = 0;
  c.min_machines = 0;
  c.training.max_steps = wanted.warmup + 2 * wanted.steps;
  c.training.check_first_steps = false;
  return plan;
}

}  // namespace

int run_profile(const Arguments& arguments) {
  CLI::App app(
      "Measure where the time of an update goes: by phase and by operator, and how near its matrix products come to "
      "what this machine can do.",
      "profile");
  app.footer(
      "  --steps N: updates to measure, by phase and then again by operator (default 10)\n"
      "  --warmup N: updates before, which aren't measured (default 3)\n"
      "  --trace FILE: also write rank 0's operators as a Chrome trace (ui.perfetto.dev)\n"
      "  --json: print one JSON object to standard output, for scripts\n"
      "  --model MODEL, --data FILE: instead of the configuration's model.path and data.train.path\n"
      "  The configuration's model, data and ranks are used, and its output_dir isn't: nothing is resumed or saved.\n"
      "Examples:\n"
      "  trainer profile t5.yaml\n"
      "  trainer profile t5.yaml --num_processes 2 --steps 20 --trace t5.json\n");
  PlanFlags flags(app);
  ProfileFlags wanted;
  std::string model, data;
  app.add_option(kModelFlag, model);
  app.add_option(kDataFlag, data);
  app.add_option("--steps", wanted.steps);
  app.add_option("--warmup", wanted.warmup);
  app.add_option("--trace", wanted.trace);
  app.add_flag("--json", wanted.json);
  if (!flags.parse(arguments)) return 0;
  if (!model.empty()) flags.set("model.path", model);
  if (!data.empty()) flags.set("data.train.path", fs::absolute(data).string());
  screen::outlive();
  const config::Plan configured = flags.resolve();
  if (!wanted.trace.empty()) wanted.trace = fs::absolute(wanted.trace).string();
  check(wanted, configured);
  for (const std::string& warning : config::launch_warnings(configured)) log::warning("{}", warning);
  const RankDevices devices = check_devices(configured.config);
  TemporaryFolder output("trainer-profile");
  const config::Plan plan = measured(configured, output.path(), wanted);
  Arguments words{"profile", "--warmup", std::to_string(wanted.warmup), "--steps", std::to_string(wanted.steps)};
  if (!wanted.trace.empty()) words.insert(words.end(), {"--trace", wanted.trace});
  if (wanted.json) words.emplace_back("--json");
  prepare_path();
  const int code = launch::run(
      plan, worker_path(), {.join = flags.join_timeout()}, [&] { return run_prepare(plan, devices.free_bytes); }, words,
      devices.places, launch::Output::kTemporary);
  if (code == kInternalFailure) output.keep();  // the message asks for its logs
  return code;
}

}  // namespace trainer::cli
