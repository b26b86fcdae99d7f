#include "engine/checkpoint/export_checkpoint.h"

#include <algorithm>
#include <map>

#include <torch/csrc/autograd/grad_mode.h>

#include "engine/base/errors.h"
#include "engine/base/files.h"
#include "engine/checkpoint/checkpoint_weights.h"
#include "engine/checkpoint/live_tensor.h"
#include "engine/checkpoint/whole_tensors.h"
#include "engine/weights/megatron_source.h"
#include "engine/weights/write_weights.h"

namespace trainer::checkpoint {
namespace fs = std::filesystem;
namespace {

void write_model(const fs::path& folder, const fs::path& output) {
  WholeTensors tensors(folder);
  std::vector<tensorfile::TensorSpec> specs;
  std::map<std::string, const SavedTensor*> by_name;
  for (const SavedTensor& tensor : tensors.manifest().tensors) {
    if (tensor.kind != kParameter) continue;
    specs.push_back({tensor.name, tensors.dtype(tensor), tensor.shape});
    by_name[tensor.name] = &tensor;
  }
  write_weights(output, specs, [&](const std::string& name) { return tensors.read(*by_name.at(name)); });
}

/// Whether the file is for resuming only.
bool is_of_the_run(const std::string& name) {
  return name == "trainer_state.json" || (name.starts_with("rank-") && name.ends_with(".safetensors"));
}

/// Errors: ConfigError when the folder already has weights.
void make_output(const fs::path& output) {
  for (const char* const name : {"model.safetensors", "adapter_model.safetensors"})
    if (fs::exists(output / name))
      throw ConfigError("{} already exists: export to another folder, or remove it.", (output / name).string());
  std::error_code error;
  fs::create_directories(output, error);
  if (error) throw machine_error("create", output, error.value());
}

void export_own(const fs::path& checkpoint, const fs::path& output) {
  const Contents contents = read_contents(checkpoint);
  verify_files(checkpoint, contents);
  const auto has = [&](const std::string& name) {
    return std::any_of(contents.files.begin(), contents.files.end(), [&](const auto& f) { return f.name == name; });
  };
  make_output(output);
  constexpr const char* kAdapter = "adapter_model.safetensors";
  // Weights come last: a folder with an older configuration must not get them beside it.
  for (const StoredFile& file : contents.files)
    if (!is_of_the_run(file.name) && file.name != kAdapter)
      publish_file(output / file.name, read_file(checkpoint / file.name));
  if (has(kAdapter))
    publish_file(output / kAdapter, read_file(checkpoint / kAdapter));
  else
    write_model(checkpoint, output);
}

void export_megatron_folder(const fs::path& source, const fs::path& output) {
  const WholeWeights weights = open_whole_weights(source);
  make_output(output);
  std::vector<tensorfile::TensorSpec> specs;
  std::map<std::string, nn::ParameterPtr> by_name;
  for (const nn::ParameterPtr& p : weights.model->all_parameters()) {
    specs.push_back({p->name, weights.source->storage(*p).dtype, p->shape});
    by_name[p->name] = p;
  }
  for (const std::string& name : weights.beside) publish_file(output / name, read_file(source / name));
  write_weights(output, specs, [&](const std::string& name) { return weights.read(*by_name.at(name)); });
}

}  // namespace

void export_checkpoint(const fs::path& source, const fs::path& output) {
  const at::NoGradGuard no_grad;
  is_megatron(source) ? export_megatron_folder(source, output) : export_own(source, output);
}

}  // namespace trainer::checkpoint
