#include "engine/checkpoint/checkpoint_weights.h"

#include <memory>
#include <utility>

#include <fmt/ranges.h>

#include "engine/base/errors.h"
#include "engine/checkpoint/live_tensor.h"

namespace trainer::checkpoint {
namespace fs = std::filesystem;
namespace {

/// The folder, once it is known to be intact and to hold a whole model.
const fs::path& verified(const fs::path& folder) {
  verify_files(folder, read_contents(folder));
  if (fs::exists(folder / "adapter_model.safetensors"))
    throw ConfigError(
        "{}: a checkpoint of adapters, without the model that they belong to.\n  Merge them into it: `trainer merge "
        "{} FOLDER`, and use FOLDER.",
        folder.string(), folder.string());
  return folder;
}

WholeWeights open_checkpoint(const fs::path& folder) {
  auto source = std::make_unique<CheckpointSource>(folder);
  WholeWeights weights = without_source(folder);
  weights.source = std::move(source);
  weights.step = read_contents(folder).step;
  return weights;
}

}  // namespace

CheckpointSource::CheckpointSource(const fs::path& folder) : folder_(verified(folder)), tensors_(folder) {
  for (const SavedTensor& tensor : tensors_.manifest().tensors)
    if (tensor.kind == kParameter) by_name_[tensor.name] = &tensor;
}

nn::Storage CheckpointSource::storage(const nn::Parameter& parameter) const {
  return tensors_.dtype(named(parameter));
}

void CheckpointSource::read(const nn::Parameter& parameter, int64_t begin, int64_t end, const at::Tensor& out) const {
  out.copy_(tensors_.read(named(parameter)).view(-1).narrow(0, begin, end - begin));
}

bool CheckpointSource::head_is_separate(const models::Model& model) const {
  return by_name_.contains(model.output_head() + ".weight");
}

void CheckpointSource::check(models::Model& model) const {
  for (const nn::ParameterPtr& p : model.all_parameters())
    if (const SavedTensor& saved = named(*p); saved.shape != p->whole_shape())
      throw InputError("{}: its weight {} has the shape [{}], but {} expects [{}].", folder_.string(), p->name,
                       fmt::join(saved.shape, ", "), model.class_name(), fmt::join(p->whole_shape(), ", "));
}

const SavedTensor& CheckpointSource::named(const nn::Parameter& parameter) const {
  const auto found = by_name_.find(parameter.name);
  if (found == by_name_.end()) throw InputError("{}: it has no weight {}", folder_.string(), parameter.name);
  return *found->second;
}

WholeWeights open_whole_weights(const fs::path& folder) {
  return is_checkpoint(folder) ? open_checkpoint(folder) : open_foreign_weights(folder);
}

}  // namespace trainer::checkpoint
