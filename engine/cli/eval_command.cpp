#include <algorithm>

#include <fmt/ranges.h>

#include "engine/base/errors.h"
#include "engine/base/metrics.h"
#include "engine/cli/flags.h"
#include "engine/cli/worker.h"

namespace trainer::cli {

int run_eval(const Arguments& arguments) {
  CLI::App app(
      "Evaluate a model or an adapter on the validation samples of a configuration, in one process on the CPU.",
      "eval");
  app.footer(fmt::format(
      "  --model FOLDER: a model or adapter folder, or a checkpoint of an adapter; default: what the run left "
      "in output_dir\n"
      "  --metrics NAME …: instead of evaluation.metrics: {}\n"
      "  --predictions FILE: also write inputs, predictions and labels to a JSONL file\n"
      "  --json: print one JSON object to standard output, for scripts\n\n"
      "Examples:\n  trainer eval --config_file t5.yaml --metrics loss accuracy f1_macro\n"
      "  trainer eval --config_file t5.yaml --model models/t5      the model before training\n",
      fmt::join(metric_names(), ", ")));
  PlanFlags flags(app);
  std::string model, predictions;
  std::vector<std::string> metrics;
  bool json = false;
  app.add_option("--model", model);
  app.add_option("--predictions", predictions);
  app.add_option("--metrics", metrics)->delimiter(',')->check(CLI::IsMember(metric_names()));
  app.add_flag("--json", json);
  if (!flags.parse(arguments)) return 0;
  config::Plan plan = flags.resolve(/*to_run=*/false);
  if (!metrics.empty()) plan.config.evaluation.metrics = metrics;
  Arguments words{"eval"};
  if (!model.empty()) words.insert(words.end(), {"--model", model});
  if (!predictions.empty()) words.insert(words.end(), {"--predictions", predictions});
  if (json) words.emplace_back("--json");
  become_worker(words, &plan);
}

}  // namespace trainer::cli
