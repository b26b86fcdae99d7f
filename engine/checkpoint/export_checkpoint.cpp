#include "engine/checkpoint/export_checkpoint.h"

#include <algorithm>
#include <map>
#include <memory>

#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/grad_mode.h>

#include "engine/base/errors.h"
#include "engine/base/files.h"
#include "engine/checkpoint/live_tensor.h"
#include "engine/checkpoint/manifest.h"
#include "engine/tensorfile/safetensors_file.h"
#include "engine/tensorfile/safetensors_writer.h"

namespace trainer::checkpoint {
namespace fs = std::filesystem;
namespace {

using Files = std::map<std::string, std::unique_ptr<tensorfile::SafetensorsFile>>;

const tensorfile::SafetensorsFile& opened(Files& files, const fs::path& folder, const std::string& name) {
  auto& file = files[name];
  if (!file) file = std::make_unique<tensorfile::SafetensorsFile>(folder / name);
  return *file;
}

/// The whole tensor, put together from its pieces.
at::Tensor whole_of(const SavedTensor& tensor, Files& files, const fs::path& folder) {
  at::Tensor whole;
  for (const SavedPiece& piece : tensor.pieces) {
    const at::Tensor stored = opened(files, folder, piece.file).read(piece.entry, 0, piece.end - piece.begin);
    if (!whole.defined()) {
      int64_t numel = 1;
      for (const int64_t size : tensor.shape) numel *= size;
      whole = at::empty({numel}, stored.options());
    }
    for (const nn::Run& run : nn::runs_of(piece.part, tensor.shape, piece.begin, piece.end))
      whole.narrow(0, run.whole, run.count).copy_(stored.narrow(0, run.part - piece.begin, run.count));
  }
  return whole.view(tensor.shape);
}

void write_model(const fs::path& folder, const fs::path& output) {
  const Manifest manifest = read_manifest(folder.string());
  Files files;
  std::vector<tensorfile::TensorSpec> specs;
  std::map<std::string, const SavedTensor*> by_name;
  for (const SavedTensor& tensor : manifest.tensors) {
    if (tensor.kind != kParameter) continue;
    const SavedPiece& first = tensor.pieces.at(0);
    specs.push_back({tensor.name, opened(files, folder, first.file).info(first.entry).dtype->type, tensor.shape});
    by_name[tensor.name] = &tensor;
  }
  const fs::path growing = output / ".model.safetensors.partial";
  tensorfile::SafetensorsWriter writer(growing, specs);
  const auto order = writer.order();
  for (const auto& info : order) writer.write(info.name, whole_of(*by_name.at(info.name), files, folder));
  writer.finish();
  publish_written(growing, output / "model.safetensors");
}

/// Whether the file is for resuming only.
bool is_of_the_run(const std::string& name) {
  return name == "trainer_state.json" || (name.starts_with("rank-") && name.ends_with(".safetensors"));
}

}  // namespace

void export_checkpoint(const fs::path& checkpoint, const fs::path& output) {
  const at::NoGradGuard no_grad;
  const Contents contents = read_contents(checkpoint);
  verify_files(checkpoint, contents);
  const auto has = [&](const std::string& name) {
    return std::any_of(contents.files.begin(), contents.files.end(), [&](const auto& f) { return f.name == name; });
  };
  for (const char* const name : {"model.safetensors", "adapter_model.safetensors"})
    if (fs::exists(output / name))
      throw ConfigError("{} is there already: export to another folder, or remove it.", (output / name).string());
  std::error_code error;
  fs::create_directories(output, error);
  if (error) throw machine_error("create", output, error.value());
  if (!has("adapter_model.safetensors")) write_model(checkpoint, output);
  for (const StoredFile& file : contents.files)
    if (!is_of_the_run(file.name)) publish_file(output / file.name, read_file(checkpoint / file.name));
}

}  // namespace trainer::checkpoint
