#include <filesystem>

#include <fmt/ranges.h>

#include "engine/base/errors.h"
#include "engine/base/files.h"
#include "engine/base/log.h"
#include "engine/base/metrics.h"
#include "engine/base/screen.h"
#include "engine/base/temporary_folder.h"
#include "engine/checkpoint/checkpoint_folder.h"
#include "engine/checkpoint/contents.h"
#include "engine/cli/flags.h"
#include "engine/cli/rank_devices.h"
#include "engine/cli/started_once.h"
#include "engine/cli/worker.h"
#include "engine/cli/worker_child.h"
#include "engine/config/adapters/adapter_kind.h"
#include "engine/config/machine/environment.h"
#include "engine/config/machine/hub_folder.h"
#include "engine/config/plan/adapter_folder.h"
#include "engine/config/plan/reference_model.h"
#include "engine/config/tables.h"
#include "engine/launch/run.h"

namespace trainer::cli {
namespace fs = std::filesystem;
namespace {

struct EvalFlags {
  std::string model, adapter, data, predictions;
  std::vector<std::string> metrics;
  bool json = false;
};

/// An adapter's head has the classes in the order of its run, which the run's checkpoints know.
void settle_classes(config::Config& config) {
  if (!config.data.labels.empty() || config.output_dir.empty()) return;
  if (const auto newest = checkpoint::newest_checkpoint(config.output_dir))
    config.data.labels = checkpoint::read_contents(newest->folder).classes;
}

/// Puts an adapter in place of the one that the plan trains. Returns its name for the report.
std::string use_adapter(config::Config& config, const std::string& folder) {
  if (config.model.path.empty()) config.model.path = config::read_adapter_base(folder).model;
  config.lora = config::read_adapter_config({.path = folder});
  settle_classes(config);
  return fmt::format("{} ({} adapter on {})", folder, config::adapter_title(config.lora->peft_type), config.model.path);
}

/// Puts a model in place of the one that the plan trains: the folder of an adapter, a whole model or a checkpoint, or
/// a Hub name. Returns its name for the report. Errors: InputError.
std::string use_model(config::Config& config, const std::string& name) {
  const std::string on_hub = fs::exists(name) ? "" : config::hub_folder(name);
  const fs::path folder = on_hub.empty() ? name : on_hub;
  if (fs::exists(config::adapter_config_file(folder.string()))) return use_adapter(config, folder.string());
  if (!fs::exists(folder / "config.json"))
    throw InputError(
        "{} {}.\n  Give a model or adapter folder with --model; without it, the run's output_dir is evaluated.",
        folder.string(), fs::exists(folder) ? "has neither a model nor an adapter" : "does not exist");
  config.lora.reset();
  config.model.path = folder.string();
  config.model.config.clear();
  return name;
}

/// The evaluation alone: nothing is trained, resumed, saved or reported.
config::Plan evaluated(const config::Plan& configured, const fs::path& output) {
  config::Plan plan = configured;
  config::Config& c = plan.config;
  c.output_dir = output.string();
  c.checkpoint = {};
  c.training.dataloader_drop_last = false;  // with few samples to train on, it would be refused
  c.logging = {};
  c.max_restarts = 0;
  c.min_machines = 0;
  return plan;
}

Arguments rank_words(const std::string& model, const EvalFlags& wanted, const config::Config& configured) {
  Arguments words{"eval", "--model", model};
  if (!wanted.predictions.empty())
    words.insert(words.end(), {"--predictions", fs::absolute(wanted.predictions).string()});
  if (wanted.json) words.emplace_back("--json");
  if (configured.dpo) words.insert(words.end(), {"--reference", config::to_json(config::reference_of(configured))});
  return words;
}

int evaluate(const PlanFlags& flags, const EvalFlags& wanted) {
  config::Plan configured = flags.resolve();
  config::Config& config = configured.config;
  const config::Config start = config;
  if (!wanted.metrics.empty()) config.evaluation.metrics = wanted.metrics;
  if (!config::validates(config))
    throw ConfigError("{} has no validation samples: set data.validation.path or data.validation.fraction.",
                      configured.source);
  if (const std::string problem = started_several_times("eval"); !problem.empty()) throw ConfigError("{}", problem);
  if (!wanted.predictions.empty()) check_writable(fs::absolute(wanted.predictions).parent_path());
  std::string model = use_model(config, wanted.model.empty() ? config.output_dir : wanted.model);
  if (!wanted.adapter.empty()) model = use_adapter(config, wanted.adapter);
  for (const std::string& warning : config::launch_warnings(configured)) log::warning("{}", warning);
  const auto places = check_devices(config).places;
  TemporaryFolder output("trainer-eval");
  const config::Plan plan = evaluated(configured, output.path());
  prepare_path();
  const int code = launch::run(
      plan, worker_path(), {.join = flags.join_timeout(), .last_call = flags.last_call()},
      [&plan] { return run_prepare(plan); }, rank_words(model, wanted, start), places, launch::Output::kTemporary);
  if (code == kInternalFailure) output.keep();  // the message asks for its logs
  return code;
}

}  // namespace

int run_eval(const Arguments& arguments) {
  CLI::App app("Evaluate a model or an adapter on the validation samples of a configuration, with its ranks.", "eval");
  app.footer(fmt::format(
      "  --model FOLDER: a model folder or Hub name, an adapter's folder, or a checkpoint of one; default: what the "
      "run left in output_dir\n"
      "  --adapter FOLDER: an adapter for that model\n"
      "  --data FILE: instead of the configuration's validation samples\n"
      "  --metrics NAME …: instead of evaluation.metrics: {}\n"
      "  --predictions FILE: also write inputs, predictions and labels to a JSONL file\n"
      "  --json: print one JSON object to standard output, for scripts\n"
      "  The ranks and their strategy are the configuration's; --num_processes 1 --cpu evaluates in one process.\n\n"
      "Examples:\n  trainer eval --config_file t5.yaml --metrics loss accuracy f1_macro\n"
      "  trainer eval --config_file t5.yaml --model models/t5      the model before training\n"
      "  trainer eval --config_file t5.yaml --model runs/t5/checkpoint-300\n",
      fmt::join(metric_names(), ", ")));
  PlanFlags flags(app);
  EvalFlags wanted;
  app.add_option(kModelFlag, wanted.model);
  app.add_option(kAdapterFlag, wanted.adapter);
  app.add_option(kDataFlag, wanted.data);
  app.add_option("--predictions", wanted.predictions);
  app.add_option("--metrics", wanted.metrics)->delimiter(',')->check(CLI::IsMember(metric_names()));
  app.add_flag("--json", wanted.json);
  if (!flags.parse(arguments)) return 0;
  if (!wanted.data.empty()) {
    flags.set("data.validation.path", fs::absolute(wanted.data).string());
    flags.set("data.validation.fraction", "0");
  }
  screen::outlive();
  return evaluate(flags, wanted);
}

}  // namespace trainer::cli
