#include "engine/weights/whole_weights.h"

#include <algorithm>

#include <ATen/ops/empty.h>
#include <nlohmann/json.hpp>

#include "engine/base/bounded_json.h"
#include "engine/base/errors.h"
#include "engine/base/files.h"
#include "engine/weights/foreign_checkpoint.h"
#include "engine/weights/megatron_source.h"
#include "engine/weights/weight_sources.h"
#include "models/registry.h"

namespace trainer::checkpoint {
namespace fs = std::filesystem;
namespace {

constexpr uint64_t kNoSeed = 0;  // unused: no weight may be missing

/// Errors: ConfigError when config.json is of a family that Megatron's layout doesn't support. (build_model() reports
/// all other errors.)
void check_family(const std::string& config_json, const fs::path& path) {
  const nlohmann::json json = bounded_json_or_none(config_json);
  if (!json.is_object() || !json.contains("model_type")) return;
  if (json["model_type"].is_string() && has_megatron_layout(json["model_type"].get<std::string>())) return;
  throw ConfigError("Megatron's layout is supported for LLaMA's architecture only; {} is of {}.", path.string(),
                    json["model_type"].dump());
}

std::unique_ptr<models::Model> model_of(const fs::path& folder, bool head_is_separate = false) {
  const fs::path config = folder / "config.json";
  if (!fs::exists(config)) throw InputError("{} is missing{}", config.string(), foreign_checkpoint(folder));
  constexpr int64_t kMaxConfig = 1 << 20;
  models::BuildRequest request;
  request.config_json = read_file(config, kMaxConfig);
  request.origin = config.string();
  check_family(request.config_json, config);
  request.task = models::Task::kCausalLm;
  request.head_is_separate = head_is_separate;
  return models::build_model(request);
}

WholeWeights open_megatron(const fs::path& folder) {
  WholeWeights weights = without_source(folder);
  auto source = std::make_unique<MegatronSource>(folder, *weights.model, kNoSeed);
  source->check(*weights.model);
  weights.source = std::move(source);
  return weights;
}

WholeWeights open_model_folder(const fs::path& folder) {
  WholeWeights weights = without_source(folder);
  auto source = std::make_unique<FolderSource>(folder.string(), weights.model->base_prefix(), kNoSeed);
  if (source->head_is_separate(*weights.model)) weights.model = model_of(folder, true);
  source->check(*weights.model);
  weights.source = std::move(source);
  return weights;
}

}  // namespace

std::vector<std::string> files_beside(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string(), ending = entry.path().extension().string();
    const bool text = ending == ".json" || ending == ".txt" || ending == ".model" || ending == ".jinja";
    const bool of_run = name == kMegatronTracker || name == "manifest.json" || name == "trainer_state.json" ||
                        name == "outcome.json" || name == "adapter_config.json" || name.ends_with(".index.json");
    if (text && !of_run && entry.is_regular_file()) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

at::Tensor WholeWeights::read(const nn::Parameter& parameter) const {
  const at::Tensor whole = at::empty(parameter.whole_shape(), source->storage(parameter).dtype);
  source->read(parameter, 0, whole.numel(), whole.view(-1));
  return whole;
}

WholeWeights without_source(const fs::path& folder) {
  return {model_of(folder), nullptr, files_beside(folder)};
}

WholeWeights open_foreign_weights(const fs::path& folder) {
  return is_megatron(folder) ? open_megatron(folder) : open_model_folder(folder);
}

}  // namespace trainer::checkpoint
