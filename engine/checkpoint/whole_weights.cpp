#include "engine/checkpoint/whole_weights.h"

#include <algorithm>
#include <map>

#include <ATen/ops/empty.h>
#include <nlohmann/json.hpp>

#include "engine/base/errors.h"
#include "engine/base/files.h"
#include "engine/checkpoint/live_tensor.h"
#include "engine/checkpoint/whole_tensors.h"
#include "engine/weights/foreign_checkpoint.h"
#include "engine/weights/megatron_source.h"
#include "engine/weights/weight_sources.h"
#include "models/registry.h"

namespace trainer::checkpoint {
namespace fs = std::filesystem;
namespace {

constexpr uint64_t kNoSeed = 0;  // unused: no weight may be missing

/// The parameters of a checkpoint.
class CheckpointSource : public parallel::WeightSource {
 public:
  explicit CheckpointSource(const fs::path& folder) : folder_(folder), tensors_(folder) {
    for (const SavedTensor& tensor : tensors_.manifest().tensors)
      if (tensor.kind == kParameter) by_name_[tensor.name] = &tensor;
  }
  at::ScalarType dtype(const nn::Parameter& parameter) const override { return tensors_.dtype(named(parameter)); }
  void read(const nn::Parameter& parameter, int64_t begin, int64_t end, const at::Tensor& out) const override {
    out.copy_(tensors_.read(named(parameter)).view(-1).narrow(0, begin, end - begin));
  }

 private:
  const SavedTensor& named(const nn::Parameter& parameter) const {
    const auto found = by_name_.find(parameter.name);
    if (found == by_name_.end()) throw InputError("{}: it has no weight {}", folder_.string(), parameter.name);
    return *found->second;
  }

  fs::path folder_;
  mutable WholeTensors tensors_;  // opens files on demand
  std::map<std::string, const SavedTensor*> by_name_;
};

/// Errors: ConfigError when config.json is of a family that Megatron's layout doesn't support. (build_model() reports
/// all other errors.)
void check_family(const std::string& config_json, const fs::path& path) {
  const nlohmann::json json = nlohmann::json::parse(config_json, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("model_type")) return;
  for (const char* const family : {"llama", "mistral", "qwen2", "qwen3"})
    if (json["model_type"] == family) return;
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

/// Text files in the folder itself, except those about the weights.
std::vector<std::string> files_beside(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string(), ending = entry.path().extension().string();
    const bool text = ending == ".json" || ending == ".txt" || ending == ".model" || ending == ".jinja";
    const bool of_weights = name == kMegatronTracker || name == "manifest.json" || name == "trainer_state.json" ||
                            name.ends_with(".index.json");
    if (text && !of_weights && entry.is_regular_file()) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

WholeWeights open_checkpoint(const fs::path& folder) {
  const Contents contents = read_contents(folder);
  verify_files(folder, contents);
  if (fs::exists(folder / "adapter_model.safetensors"))
    throw ConfigError(
        "{}: a checkpoint of adapters, without the model that they belong to.\n  Export it to a PEFT folder, merge "
        "that into its model (PEFT's merge_and_unload), and export the result.",
        folder.string());
  return {model_of(folder), std::make_unique<CheckpointSource>(folder), files_beside(folder), contents.step};
}

WholeWeights open_megatron(const fs::path& folder) {
  WholeWeights weights{model_of(folder), nullptr, files_beside(folder)};
  auto source = std::make_unique<MegatronSource>(folder, *weights.model, kNoSeed);
  source->check(*weights.model);
  weights.source = std::move(source);
  return weights;
}

WholeWeights open_model_folder(const fs::path& folder) {
  WholeWeights weights{model_of(folder), nullptr, files_beside(folder)};
  auto source = std::make_unique<FolderSource>(folder.string(), weights.model->base_prefix(), kNoSeed);
  if (source->head_is_separate(*weights.model)) weights.model = model_of(folder, true);
  source->check(*weights.model);
  weights.source = std::move(source);
  return weights;
}

}  // namespace

at::Tensor WholeWeights::read(const nn::Parameter& parameter) const {
  const at::Tensor whole = at::empty(parameter.whole_shape(), source->dtype(parameter));
  source->read(parameter, 0, whole.numel(), whole.view(-1));
  return whole;
}

WholeWeights open_whole_weights(const fs::path& folder) {
  if (fs::exists(folder / "manifest.json")) return open_checkpoint(folder);
  return is_megatron(folder) ? open_megatron(folder) : open_model_folder(folder);
}

}  // namespace trainer::checkpoint
