#include <filesystem>
#include <optional>

#include "engine/base/errors.h"
#include "engine/checkpoint/checkpoint_folder.h"
#include "engine/cli/flags.h"
#include "engine/cli/replay_report.h"
#include "engine/cli/worker.h"
#include "engine/cli/worker_child.h"
#include "engine/config/plan/resolve.h"
#include "engine/launch/run.h"

namespace trainer::cli {
namespace fs = std::filesystem;
namespace {

/// "A:B" or "A": updates, both ends included.
Steps parse_steps(const std::string& text) {
  const size_t colon = text.find(':');
  const auto first = config::parse_int(text.substr(0, colon));
  const auto last = colon == std::string::npos ? first : config::parse_int(text.substr(colon + 1));
  if (!first || !last || *first < 1 || *last < *first)
    throw ConfigError("--steps must be A:B, the first and last update, counted from 1; is '{}'", config::shown(text));
  return {*first, *last};
}

/// The plan of the run in `folder`, as that run understood its configuration.
config::Plan plan_of(const fs::path& folder) {
  const fs::path file = folder / "config.resolved.yaml";
  if (!fs::exists(file))
    throw InputError("{} is not a run: it has no config.resolved.yaml.\n  Give the output_dir of a run.",
                     folder.string());
  return config::resolve_plan({.file = file.string()});
}

/// The checkpoint to resume from so that update `first` is repeated: the newest complete one before it. "" for the
/// start.
/// Errors: InputError when there is none and the run itself did not begin at its start.
std::string start_for(int64_t first, const fs::path& folder, const config::Config& config) {
  std::string start;
  for (const checkpoint::Found& one : checkpoint::find_checkpoints(folder))
    if (one.step < first) start = one.folder.string();
  const std::string& resumed = config.checkpoint.resume_from_checkpoint;
  const bool from_elsewhere = resumed != "auto" && resumed != "true" && resumed != "false";
  return start.empty() && from_elsewhere ? resumed : start;
}

/// A plan that repeats the same updates in another folder and stops after the last of them.
config::Plan replay_of(config::Plan plan, const fs::path& folder, const fs::path& output, Steps steps) {
  config::Config& c = plan.config;
  const std::string start = start_for(steps.first, folder, c);
  c.output_dir = output.string();
  c.checkpoint.resume_from_checkpoint = start.empty() ? "false" : start;
  c.checkpoint.save_total_limit = 0;
  c.checkpoint.metric_for_best_model = "none";
  c.evaluation.eval_steps = steps.last + 1;  // evaluation changes no update
  c.max_restarts = 0;
  c.num_machines = 1;  // all ranks run on this machine: only their number matters
  c.min_machines = c.machine_rank = 0;
  return plan;
}

}  // namespace

int run_replay(const Arguments& arguments) {
  CLI::App app(
      "Repeat updates of a run from the newest checkpoint before them, and compare losses, gradient norms, samples and "
      "saved weights with what the run recorded, bit for bit. The run's folder is only read.",
      "replay");
  app.footer("Examples:\n  trainer replay runs/t5 --steps 101:110\n");
  std::string run, steps_text, output;
  app.add_option("RUN", run, "a run's output_dir")->required();
  app.add_option("--steps", steps_text, "A:B, the first and last update to repeat")->required();
  app.add_option("--output_dir", output, "where the replay writes; default: RUN/replay-A-B");
  if (!parse(app, arguments)) return 0;
  const Steps steps = parse_steps(steps_text);
  const fs::path folder = fs::absolute(run);
  const config::Plan original = plan_of(folder);
  const fs::path target =
      output.empty() ? folder / fmt::format("replay-{}-{}", steps.first, steps.last) : fs::absolute(output);
  if (checkpoint::newest_checkpoint(target) || fs::exists(target / "metrics.jsonl"))
    throw ConfigError("{} holds an earlier replay or another run: remove it, or give another --output_dir",
                      target.string());
  const config::Plan plan = replay_of(original, folder, target, steps);
  prepare_path();
  const int code =
      launch::run(plan, worker_path(), {}, [&plan] { return run_prepare(plan); }, {"rank", std::to_string(steps.last)});
  if (code != kDone) return code;
  const ReplayReport report = compare_runs(folder, target, steps);
  fmt::print("updates {} to {} of {}, repeated in {}:\n{}", steps.first, steps.last, folder.string(), target.string(),
             report.text);
  if (!report.equal) return kInternalFailure;
  for (const checkpoint::Found& one : checkpoint::find_checkpoints(target)) checkpoint::remove_checkpoint(one.folder);
  fs::remove(target / "latest");
  return kDone;
}

}  // namespace trainer::cli
