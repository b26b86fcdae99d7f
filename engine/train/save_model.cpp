#include "engine/train/save_model.h"

#include <algorithm>
#include <cerrno>
#include <string>
#include <vector>

#include "data/tokenizers/save_tokenizer.h"
#include "engine/adapters/adapter_config.h"
#include "engine/adapters/adapter_file.h"
#include "engine/base/errors.h"
#include "engine/base/file_operations.h"
#include "engine/base/files.h"
#include "engine/base/folder_lock.h"
#include "engine/weights/export.h"

namespace trainer::train {
namespace fs = std::filesystem;
namespace {

using Files = std::vector<data::TokenizerFile>;

bool has_content(const fs::path& path, const std::string& content) {
  try {
    return read_file(path) == content;
  } catch (const InputError&) {  // it is missing, or something else
    return false;
  }
}

/// The configuration of the adapter or the model.
data::TokenizerFile configuration(parallel::ParallelModel& model, const config::Plan& plan,
                                  const config::LoraConfig& lora) {
  if (!plan.config.lora) return {"config.json", model.model().config_json()};
  return {"adapter_config.json", adapters::adapter_config_json(lora, model.model(), plan.config.model.path)};
}

/// What belongs to the weights: the configuration, and the tokenizer's files.
Files files_beside(const data::TokenizerFile& configuration, const prepare::Inputs& inputs) {
  Files files;
  if (inputs.tokenizer) files = data::files_for_readers(*inputs.tokenizer, inputs.chat_template);
  files.push_back(configuration);
  return files;
}

void publish_all(const Files& files, const fs::path& folder) {
  for (const data::TokenizerFile& file : files) publish_file(folder / file.name, file.content);
}

/// Publishes the finished file `growing` as `weights`, with the files beside it. These are several renames, and a kill
/// between two of them must not leave weights beside the configuration of others, which load without an error (another
/// lora_alpha). So if any of these files changes, the old weights go first, and the new ones always come last.
void publish_model(const fs::path& growing, const fs::path& weights, const Files& beside) {
  const fs::path folder = weights.parent_path();
  const bool changes = std::any_of(beside.begin(), beside.end(), [&](const data::TokenizerFile& file) {
    return !has_content(folder / file.name, file.content);
  });
  if (changes && file_operations::remove_file(weights) != 0 && errno != ENOENT)
    throw machine_error("remove", weights, errno);
  publish_all(beside, folder);
  publish_written(growing, weights);
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
  if (plan.config.lora)
    adapter = checkpoint::gather_adapter(model, adapters::adapter_file(model.model(), lora));
  return [adapter, about = configuration(model, plan, lora), &inputs](const fs::path& folder) {
    if (!adapter.empty()) checkpoint::write_tensors(folder / "adapter_model.safetensors", adapter);
    publish_all(files_beside(about, inputs), folder);
  };
}

}  // namespace trainer::train
