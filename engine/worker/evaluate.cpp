#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <torch/csrc/autograd/grad_mode.h>

#include "engine/base/errors.h"
#include "engine/base/listed.h"
#include "engine/base/log.h"
#include "engine/base/metrics.h"
#include "engine/base/screen.h"
#include "engine/config/adapters/adapter_kind.h"
#include "engine/config/plan/adapter_folder.h"
#include "engine/config/plan/handover.h"
#include "engine/evaluation/evaluate.h"
#include "engine/train/build.h"
#include "engine/train/evaluation_request.h"
#include "engine/worker/commands.h"

namespace trainer::worker {
namespace {

namespace fs = std::filesystem;

/// Makes the plan one of a single process on the CPU.
void run_alone(config::Config& config) {
  config.distributed_type = config::DistributedType::kNo;
  config.num_processes = config.num_machines = 1;
  config.parallelism_config.reset();
  config.devices.clear();
  config.use_cpu = true;
}

/// Puts the model of `folder` in place of the one that the plan trains: an adapter, or a whole model. Returns its text.
std::string use_model(config::Config& config, const fs::path& folder) {
  if (fs::exists(config::adapter_config_file(folder.string()))) {
    if (config.model.path.empty()) config.model.path = config::read_adapter_base(folder.string()).model;
    config.lora = config::read_adapter_config({.path = folder.string()});
    return fmt::format("{} ({} adapter on {})", folder.string(), config::adapter_title(config.lora->peft_type),
                       config.model.path);
  }
  if (!fs::exists(folder / "config.json"))
    throw InputError(
        "{} {}.\n  Give a model or adapter folder with --model; without it, the run's output_dir is evaluated.",
        folder.string(), fs::exists(folder) ? "has neither a model nor an adapter" : "does not exist");
  config.lora.reset();
  config.model.path = folder.string();
  config.model.config.clear();
  return folder.string();
}

void print_table(const std::string& model, size_t samples, const std::map<std::string, double>& values) {
  fmt::print("{} on {}\n", model, counted(static_cast<int64_t>(samples), "validation sample", "validation samples"));
  for (const Metric& metric : kMetrics)
    if (const auto found = values.find(std::string("eval_") + metric.name); found != values.end())
      fmt::print("  {:<22}{:.6g}\n", metric.name, found->second);
}

}  // namespace

int evaluate_command(const std::vector<std::string>& args) {
  CLI::App app("Evaluate a model.", "eval");
  std::string folder, predictions;
  bool json = false;
  app.add_option("--model", folder);
  app.add_option("--predictions", predictions);
  app.add_flag("--json", json);
  app.parse(std::vector<std::string>(args.rbegin(), args.rend()));
  log::open(log::Level::kInfo, "");
  const at::NoGradGuard no_grad;
  config::Plan plan = config::inherited_plan();
  config::Config& config = plan.config;
  run_alone(config);
  const std::string model_text = use_model(config, folder.empty() ? config.output_dir : folder);
  train::Setup setup = train::set_up(plan);
  const data::Samples& samples = *setup.inputs.datasets.validation;
  if (samples.size() == 0)
    throw ConfigError("{} has no validation samples: set data.validation.path or data.validation.fraction.",
                      plan.source);
  for (const nn::ParameterPtr& p : setup.blueprint.model->all_parameters()) p->trainable = false;
  const auto comm = dist::solo_comm();
  const auto model = train::make_parallel(plan, setup.blueprint, *comm);
  const bool generates = config.evaluation.generate || !predictions.empty();
  const auto request = train::evaluation_request(config, setup.inputs, generates, [](const std::string&) {});
  const evaluation::Result result = evaluation::evaluate(*model, request);
  if (!predictions.empty()) evaluation::write_predictions(predictions, result.predictions);
  if (json) {
    nlohmann::ordered_json all{{"model", model_text}, {"samples", samples.size()}};
    for (const auto& [name, value] : result.values) all[name] = value;
    fmt::print("{}\n", all.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
  } else {
    print_table(model_text, static_cast<size_t>(samples.size()), result.values);
  }
  return kDone;
}

}  // namespace trainer::worker
