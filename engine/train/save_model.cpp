#include "engine/train/save_model.h"

#include <string>
#include <vector>

#include "data/tokenizers/save_tokenizer.h"
#include "engine/adapters/adapter_config.h"
#include "engine/adapters/adapter_file.h"
#include "engine/base/folder_lock.h"
#include "engine/train/publish_model.h"
#include "engine/weights/export.h"

namespace trainer::train {
namespace fs = std::filesystem;
namespace {

/// The configuration of the adapter or the model.
data::TokenizerFile configuration(parallel::ParallelModel& model, const config::Plan& plan,
                                  const config::LoraConfig& lora) {
  if (!plan.config.lora) return {"config.json", model.model().config_json()};
  return {"adapter_config.json", adapters::adapter_config_json(lora, model.model(), plan.config.model.path)};
}

/// What belongs to the weights: the configuration, and the tokenizer's files.
std::vector<data::TokenizerFile> files_beside(const data::TokenizerFile& configuration, const prepare::Inputs& inputs) {
  std::vector<data::TokenizerFile> files;
  if (inputs.tokenizer) files = data::files_for_readers(*inputs.tokenizer, inputs.chat_template);
  files.push_back(configuration);
  return files;
}

}  // namespace

void save_model(parallel::ParallelModel& model, const config::Plan& plan, const config::LoraConfig& lora,
                const prepare::Inputs& inputs, const fs::path& folder) {
  const fs::path weights = folder / (plan.config.lora ? "adapter_model.safetensors" : "model.safetensors");
  const fs::path growing = folder / ("." + weights.filename().string() + ".partial");
  if (plan.config.lora)
    checkpoint::export_adapter(model, adapters::adapter_file(model.model(), lora), growing);
  else
    checkpoint::export_weights(model, growing, [](const parallel::LogicalTensor& tensor) { return tensor.name; });
  if (model.comm().rank() == 0) {
    FolderOwner::from_environment(folder).require();
    publish_model(growing, weights, files_beside(configuration(model, plan, lora), inputs));
  }
  model.comm().barrier();
}

checkpoint::Saver::Also beside_checkpoint(parallel::ParallelModel& model, const config::Plan& plan,
                                          const config::LoraConfig& lora, const prepare::Inputs& inputs) {
  checkpoint::Gathered adapter;
  if (plan.config.lora) adapter = checkpoint::gather_adapter(model, adapters::adapter_file(model.model(), lora));
  return [adapter, about = configuration(model, plan, lora), &inputs](const fs::path& folder) {
    if (!adapter.empty()) checkpoint::write_tensors(folder / "adapter_model.safetensors", adapter);
    publish_files(files_beside(about, inputs), folder);
  };
}

}  // namespace trainer::train
