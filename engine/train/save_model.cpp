#include "engine/train/save_model.h"

#include "data/tokenizers/save_tokenizer.h"
#include "engine/adapters/adapter_config.h"
#include "engine/adapters/adapter_file.h"
#include "engine/base/files.h"
#include "engine/weights/export.h"

namespace trainer::train {
namespace fs = std::filesystem;
namespace {

/// Collective. `write` writes a hidden file, which is then renamed: a reader sees the old file or the new one.
template <class Write>
void export_published(parallel::ParallelModel& model, const fs::path& path, const Write& write) {
  const fs::path growing = path.parent_path() / ("." + path.filename().string() + ".partial");
  write(growing);
  if (model.comm().rank() == 0) {
    std::error_code error;
    fs::rename(growing, path, error);
    if (error) throw machine_error("rename", growing, error.value());
  }
  model.comm().barrier();
}

void save_tokenizer(const prepare::Inputs& inputs, const fs::path& folder) {
  if (inputs.tokenizer) data::save_tokenizer(*inputs.tokenizer, inputs.chat_template, folder);
}

}  // namespace

void save_model(parallel::ParallelModel& model, const config::Plan& plan, const config::LoraConfig& lora,
                const prepare::Inputs& inputs, const fs::path& folder) {
  const bool is_rank_zero = model.comm().rank() == 0;
  if (plan.config.lora) {
    export_published(model, folder / "adapter_model.safetensors", [&](const fs::path& path) {
      checkpoint::export_adapter(model, adapters::adapter_file(model.model(), lora), path);
    });
  } else {
    export_published(model, folder / "model.safetensors", [&](const fs::path& path) {
      checkpoint::export_weights(model, path, [](const parallel::LogicalTensor& tensor) { return tensor.name; });
    });
  }
  if (!is_rank_zero) return;
  if (plan.config.lora) {
    publish_file(folder / "adapter_config.json",
                 adapters::adapter_config_json(lora, model.model(), plan.config.model.path));
  } else {
    publish_file(folder / "config.json", model.model().config_json());
  }
  save_tokenizer(inputs, folder);
}

checkpoint::Saver::Also beside_checkpoint(parallel::ParallelModel& model, const config::Plan& plan,
                                          const config::LoraConfig& lora, const prepare::Inputs& inputs) {
  if (plan.config.lora) {
    const auto adapter = checkpoint::gather_adapter(model, adapters::adapter_file(model.model(), lora));
    const std::string about = adapters::adapter_config_json(lora, model.model(), plan.config.model.path);
    return [adapter, about, &inputs](const fs::path& folder) {
      checkpoint::write_tensors(folder / "adapter_model.safetensors", adapter);
      publish_file(folder / "adapter_config.json", about);
      save_tokenizer(inputs, folder);
    };
  }
  return [about = model.model().config_json(), &inputs](const fs::path& folder) {
    publish_file(folder / "config.json", about);
    save_tokenizer(inputs, folder);
  };
}

}  // namespace trainer::train
