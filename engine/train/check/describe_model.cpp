#include "engine/train/check/describe_model.h"

#include <map>
#include <set>

#include <nlohmann/json.hpp>

#include "data/samples/labels.h"
#include "engine/base/bounded_json.h"
#include "engine/base/errors.h"
#include "engine/base/files.h"
#include "engine/weights/megatron_source.h"
#include "engine/weights/weight_sources.h"
#include "models/nn/linear.h"
#include "models/registry.h"

namespace trainer::train {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kMaxConfig = int64_t{1} << 20;

/// The task called `name` if the model's family supports it, else the family's default task.
models::Task task_called(const std::string& name, const std::vector<models::Task>& can) {
  for (const models::Task task : can)
    if (models::name_of(task) == name) return task;
  return can.empty() ? models::Task::kSeq2SeqLm : can.front();  // building an unknown family reports the error
}

std::string model_type_of(const std::string& config_json) {
  const auto json = bounded_json_or_none<Json>(config_json);
  const auto type = json.is_object() ? json.find("model_type") : json.end();
  return json.is_object() && type != json.end() && type->is_string() ? type->get<std::string>() : "";
}

/// Errors: InputError when its weights are missing or belong to another model.
void check_weights(const std::string& folder, models::Model& model) {
  if (!checkpoint::is_megatron(folder)) checkpoint::FolderSource(folder, model.base_prefix(), 0).check(model);
}

/// The layers that can have an adapter, by the last part of their names: [{"name": "q", "count": 36, "shape": [..]}].
Json linear_layers(models::Model& model) {
  std::map<std::pair<std::string, std::vector<int64_t>>, int64_t> counts;
  model.visit([&](nn::Module& module) {
    const auto* linear = dynamic_cast<nn::Linear*>(&module);
    if (linear == nullptr || module.path() == model.output_head()) return;
    const std::string name = module.path().substr(module.path().rfind('.') + 1);
    ++counts[{name, {linear->out(), linear->in()}}];
  });
  Json layers = Json::array();
  for (const auto& [key, count] : counts)
    layers.push_back({{"name", key.first}, {"count", count}, {"shape", key.second}});
  return layers;
}

/// Possible names of adapter targets: the last parts of the names of linear layers and embeddings.
std::set<std::string> adaptable_layers(models::Model& model) {
  std::set<std::string> names;
  model.visit([&](nn::Module& module) {
    if (dynamic_cast<nn::Linear*>(&module) == nullptr && dynamic_cast<nn::Embedding*>(&module) == nullptr) return;
    names.insert(module.path().substr(module.path().rfind('.') + 1));
  });
  return names;
}

/// The module classes that FSDP can wrap.
std::set<std::string> classes_of(models::Model& model) {
  std::set<std::string> classes;
  model.visit([&](nn::Module& module) {
    if (&module != &model) classes.insert(module.class_name());
  });
  return classes;
}

Json blocks_of(models::Model& model) {
  std::map<std::string, int64_t> counts;
  for (const nn::Module* block : model.blocks()) ++counts[block->class_name()];
  return counts;
}

/// The class names, unless they are placeholders.
std::vector<std::string> given_labels(const models::Model& model) {
  const std::vector<std::string> labels = model.labels();
  return data::are_placeholders(labels) ? std::vector<std::string>{} : labels;
}

Json description_of(const std::string& origin, const std::string& task_name) {
  const bool built = origin.starts_with("{");
  const std::string file = built ? "model.config" : origin + "/config.json";
  const std::string config = built ? origin : read_file(file, kMaxConfig), type = model_type_of(config);
  const std::vector<models::Task> can = models::tasks_of(type);
  models::BuildRequest request{config, file, /*head_is_separate=*/false, /*strict=*/false};
  request.task = task_called(task_name, can);
  const auto model = models::build_model(request);
  if (!built) check_weights(origin, *model);
  int64_t parameters = 0;
  for (const nn::ParameterPtr& parameter : model->all_parameters()) parameters += parameter->numel();
  Json tasks = Json::array();
  for (const models::Task task : can) tasks.push_back(models::name_of(task));
  return {{"class", model->class_name()},
          {"family", type},
          {"tasks", tasks},
          {"parameters", parameters},
          {"blocks", blocks_of(*model)},
          {"classes", classes_of(*model)},
          {"vocabulary", model->vocabulary()},
          {"positions", model->max_positions()},
          {"lora_targets", model->default_lora_targets()},
          {"linear_layers", linear_layers(*model)},
          {"labels", given_labels(*model)},
          {"adaptable", adaptable_layers(*model)}};
}

}  // namespace

std::string describe_model(const std::string& origin, const std::string& task) {
  Json description;
  try {
    description = description_of(origin, task);
  } catch (const Error& error) {
    if (error.code() == kInternalFailure) throw;
    description = {{"error", error.what()}};
  }
  return description.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace trainer::train
