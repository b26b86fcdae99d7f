#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "engine/base/bounded_json.h"
#include "engine/base/errors.h"
#include "engine/base/files.h"
#include "engine/batching/token_batch.h"
#include "engine/config/plan/adapter_folder.h"
#include "engine/config/plan/plan.h"
#include "engine/tensorfile/safetensors_writer.h"
#include "engine/train/build.h"
#include "engine/train/model_plan.h"
#include "engine/worker/commands.h"

#include <torch/csrc/autograd/grad_mode.h>

namespace trainer::worker {
namespace {

models::Batch batch_of(const nlohmann::json& sample, models::Task task) {
  const auto ids = [&](const char* key) { return sample.at(key).get<std::vector<int32_t>>(); };
  if (task != models::Task::kSeq2SeqLm) return batching::token_batch({ids("source")}, {}, task);
  return batching::token_batch({ids("source")}, {ids("labels")}, task);
}

config::Task task_called(const std::string& name) {
  if (const auto task = train::task_named(name)) return *task;
  throw ConfigError("dump-logits: there is no task '{}'", name);
}

}  // namespace

int dump_logits_command(const std::vector<std::string>& args) {
  std::string model_folder, adapter, samples_file, output, task = "seq2seq_lm";
  CLI::App app{"Write the logits under teacher forcing, for comparison with other programs"};
  app.add_option("--model", model_folder)->required();
  app.add_option("--adapter", adapter);
  app.add_option("--task", task);
  app.add_option("--samples", samples_file)->required();
  app.add_option("--output", output)->required();
  try {
    app.parse(std::vector<std::string>(args.rbegin(), args.rend()));
  } catch (const CLI::ParseError& error) {
    throw ConfigError("dump-logits: {}", error.what());
  }
  config::Plan plan;
  plan.config.num_processes = 1;
  plan.config.model.path = model_folder;
  plan.config.data.task = task_called(task);
  if (!adapter.empty()) plan.config.lora = config::read_adapter_config({.path = adapter});
  train::Blueprint blueprint = train::make_blueprint(plan);
  const auto comm = dist::solo_comm();
  const auto model = train::make_parallel(plan, blueprint, *comm);
  const auto json = bounded_json_or_none(read_file(samples_file));
  if (!json.is_object() || !json.contains("samples"))
    throw InputError("{}: expected {{\"samples\": […]}}.", samples_file);
  const at::NoGradGuard no_grad;
  std::vector<tensorfile::TensorSpec> specs;
  std::map<std::string, at::Tensor> logits;
  for (size_t i = 0; i < json["samples"].size(); ++i) {
    const std::string name = fmt::format("logits_{}", i);
    logits[name] = model->model().logits(batch_of(json["samples"][i], model->model().task()), {}).contiguous();
    specs.push_back({name, at::kFloat, logits[name].sizes().vec()});
  }
  tensorfile::SafetensorsWriter writer(output, specs);
  const auto order = writer.order();
  for (const auto& info : order) writer.write(info.name, logits.at(info.name));
  writer.finish();
  return kDone;
}

}  // namespace trainer::worker
