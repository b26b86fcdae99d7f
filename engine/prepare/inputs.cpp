#include "engine/prepare/inputs.h"

#include <filesystem>

#include <nlohmann/json.hpp>

#include "engine/base/files.h"
#include "engine/prepare/run_length.h"

namespace trainer::prepare {
namespace {

constexpr int64_t kMaxConfig = int64_t{1} << 20;

/// The classes of config.json's id2label, in the order of their numbers; none where it has none. What is wrong with the
/// file is said by whoever builds the model.
std::vector<std::string> labels_of_model(const config::ModelConfig& options) {
  const std::string file = options.path + "/config.json";
  std::string text = options.config;
  if (!options.path.empty()) text = std::filesystem::exists(file) ? read_file(file, kMaxConfig) : "";
  const auto json = nlohmann::json::parse(text, nullptr, false);
  const auto found = json.is_object() ? json.find("id2label") : json.end();
  if (!json.is_object() || found == json.end() || !found->is_object()) return {};
  std::vector<std::string> labels;
  for (size_t i = 0; i < found->size(); ++i) {
    const auto label = found->find(std::to_string(i));
    if (label == found->end() || !label->is_string()) return {};
    labels.push_back(label->get<std::string>());
  }
  return labels;
}

}  // namespace

Inputs load_inputs(const config::Plan& plan, const data::PrepareProgress& progress) {
  const config::Config& c = plan.config;
  Inputs inputs;
  data::DatasetsRequest request{c.data, c.seed};
  request.progress = progress;
  if (c.training.max_steps > 0)
    request.train_samples = c.training.max_steps * global_batch(c.training, plan.data_ranks());
  if (c.data.task == config::Task::kSequenceClassification) request.model_labels = labels_of_model(c.model);
  if (c.data.task != config::Task::kImageClassification)
    inputs.tokenizer = data::open_tokenizer(c.tokenizer, c.model.path);
  inputs.datasets = data::open_datasets(request, inputs.tokenizer.get());
  return inputs;
}

}  // namespace trainer::prepare
