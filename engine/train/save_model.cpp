#include "engine/train/save_model.h"

#include <string>
#include <vector>

#include "engine/adapters/adapter_config.h"
#include "engine/adapters/adapter_file.h"
#include "engine/base/folder_lock.h"
#include "engine/checkpoint/leader_epoch.h"
#include "engine/checkpoint/signature.h"
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
std::vector<data::TokenizerFile> files_beside(const data::TokenizerFile& configuration,
                                              const TokenizerOfRun& tokenizer) {
  std::vector<data::TokenizerFile> files;
  if (tokenizer) files = tokenizer->files();
  files.push_back(configuration);
  return files;
}

/// Adds the signature of these files and of the weights `growing`, whose final name is `weights`.
void sign(std::vector<data::TokenizerFile>& files, const fs::path& growing, const fs::path& weights,
          const checkpoint::SigningKey& key) {
  checkpoint::Sums sums{.run = checkpoint::run_name(weights.parent_path())};
  for (const data::TokenizerFile& file : files) sums.files[file.name] = checkpoint::sha256_of(file.content);
  sums.files[weights.filename().string()] = checkpoint::sha256_of_file(growing);
  for (const auto& [name, content] : checkpoint::signature_files(sums, key)) files.push_back({name, content});
}

}  // namespace

void save_model(parallel::ParallelModel& model, const config::Plan& plan, const config::LoraConfig& lora,
                const TokenizerOfRun& tokenizer, const fs::path& folder, const checkpoint::SigningKey* key) {
  const fs::path weights = folder / (plan.config.lora ? "adapter_model.safetensors" : "model.safetensors");
  const fs::path growing = folder / ("." + weights.filename().string() + ".partial");
  if (plan.config.lora)
    checkpoint::export_adapter(model, adapters::adapter_file(model.model(), lora), growing);
  else
    checkpoint::export_weights(model, growing, [](const parallel::LogicalTensor& tensor) { return tensor.name; });
  if (model.comm().rank() == 0) {
    checkpoint::require_leads(FolderOwner::from_environment(folder));
    std::vector<data::TokenizerFile> beside = files_beside(configuration(model, plan, lora), tokenizer);
    if (key != nullptr)
      sign(beside, growing, weights, *key);
    else
      checkpoint::remove_signature(folder);
    publish_model(growing, weights, beside);
  }
  model.comm().barrier();
}

checkpoint::Saver::Also beside_checkpoint(parallel::ParallelModel& model, const config::Plan& plan,
                                          const config::LoraConfig& lora, const TokenizerOfRun& tokenizer) {
  checkpoint::Gathered adapter;
  if (plan.config.lora) adapter = checkpoint::gather_adapter(model, adapters::adapter_file(model.model(), lora));
  return [adapter, about = configuration(model, plan, lora), tokenizer](const fs::path& folder) {
    if (!adapter.empty()) checkpoint::write_tensors(folder / "adapter_model.safetensors", adapter);
    publish_files(files_beside(about, tokenizer), folder);
  };
}

}  // namespace trainer::train
