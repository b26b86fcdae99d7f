#include "engine/train/model_plan.h"

#include <nlohmann/json.hpp>

#include "engine/adapters/model_facts.h"
#include "engine/base/bounded_json.h"
#include "engine/base/errors.h"
#include "engine/base/files.h"
#include "engine/config/machine/hub_folder.h"
#include "engine/config/names.h"
#include "engine/config/plan/adapter_folder.h"
#include "engine/tensorfile/safetensors_file.h"
#include "models/registry.h"

namespace trainer::train {
namespace fs = std::filesystem;
namespace {

using nlohmann::json;

/// The folder of a model; "": it isn't on this machine.
std::string folder_of(const std::string& name) {
  std::error_code ignored;
  return fs::is_directory(name, ignored) ? name : config::hub_folder(name);
}

std::string base_folder(const std::string& name, const fs::path& adapter) {
  if (name.empty())
    throw ConfigError("{} doesn't name its base model: give the model's folder with --base.",
                      config::adapter_config_file(adapter.string()));
  std::string folder = folder_of(name);
  if (!folder.empty()) return folder;
  throw InputError("{}: its base model {} is not on this machine: give the model's folder with --base.\n  {}",
                   adapter.string(), name, config::hub_hint(name));
}

/// config.json of the folder; an empty object if it can't be read, which building the model reports.
json config_of(const std::string& folder) {
  const fs::path file = fs::path(folder) / "config.json";
  json config = fs::exists(file) ? bounded_json_or_none(read_file(file)) : json();
  return config.is_object() ? config : json::object();
}

std::vector<models::Task> tasks_of(const json& config) {
  const auto type = config.find("model_type");
  return models::tasks_of(type != config.end() && type->is_string() ? type->get<std::string>() : "");
}

/// `peft_name`: PEFT's task_type.
config::Task task_of(const std::string& peft_name, const json& config) {
  const auto tasks = tasks_of(config);
  if (tasks.empty()) return {};  // building the model reports the unknown family
  models::Task chosen = tasks.front();
  for (const models::Task task : tasks)
    if (adapters::task_type(task) == peft_name) chosen = task;
  return task_named(models::name_of(chosen)).value_or(config::Task{});
}

/// Names for the classes of a head in the adapter: PEFT saves the head without them. None if config.json has that many.
std::vector<std::string> class_names(const std::string& adapter, const json& config) {
  const fs::path weights = fs::path(adapter) / "adapter_model.safetensors";
  if (!fs::exists(weights)) return {};  // opening the adapter reports it
  const tensorfile::SafetensorsFile file(weights);
  for (const tensorfile::TensorInfo& tensor : file.tensors()) {
    const bool is_head = tensor.name.ends_with("score.weight") || tensor.name.ends_with("classifier.weight");
    if (!is_head || tensor.shape.size() != 2) continue;
    const auto classes = static_cast<size_t>(tensor.shape[0]);
    if (config.contains("id2label") && config["id2label"].size() == classes) return {};
    std::vector<std::string> names;
    for (size_t i = 0; i < classes; ++i) names.push_back(fmt::format("LABEL_{}", i));
    return names;
  }
  return {};
}

}  // namespace

std::optional<config::Task> task_named(const std::string& wanted) {
  for (const auto& [task, name] : config::EnumNames<config::Task>::values)
    if (name == wanted) return task;
  return std::nullopt;
}

config::Plan plan_of_model(const std::string& name) {
  config::Plan plan;
  plan.config.num_processes = 1;
  plan.config.model.path = folder_of(name);
  std::error_code ignored;
  if (fs::is_regular_file(name, ignored))
    throw InputError("the model {} is a file{}: give the folder with config.json and the weights.", name,
                     name.ends_with(".gguf") ? " for llama.cpp" : "");
  if (plan.config.model.path.empty())
    throw InputError("the model {} is not on this machine.\n  {}", name, config::hub_hint(name));
  plan.config.data.task = task_of("", config_of(plan.config.model.path));
  return plan;
}

AdapterPlan plan_of_adapter(const fs::path& adapter, const std::string& base) {
  AdapterPlan made;
  config::Config& options = made.plan.config;
  options.num_processes = 1;
  options.lora = config::read_adapter_config({.path = adapter.string()});
  const config::AdapterBase named = config::read_adapter_base(adapter.string());
  options.model.path = base_folder(base.empty() ? named.model : base, adapter);
  const json config = config_of(options.model.path);
  options.data.task = task_of(named.task, config);
  if (options.data.task == config::Task::kSequenceClassification) made.labels = class_names(options.lora->path, config);
  return made;
}

}  // namespace trainer::train
