#include "engine/checkpoint/checkpoint_weights.h"

#include <map>
#include <memory>
#include <string>

#include "engine/base/errors.h"
#include "engine/checkpoint/live_tensor.h"
#include "engine/checkpoint/whole_tensors.h"

namespace trainer::checkpoint {
namespace fs = std::filesystem;
namespace {

/// The parameters of a checkpoint.
class CheckpointSource : public parallel::WeightSource {
 public:
  explicit CheckpointSource(const fs::path& folder) : folder_(folder), tensors_(folder) {
    for (const SavedTensor& tensor : tensors_.manifest().tensors)
      if (tensor.kind == kParameter) by_name_[tensor.name] = &tensor;
  }
  nn::Storage storage(const nn::Parameter& parameter) const override { return tensors_.dtype(named(parameter)); }
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

WholeWeights open_checkpoint(const fs::path& folder) {
  const Contents contents = read_contents(folder);
  verify_files(folder, contents);
  if (fs::exists(folder / "adapter_model.safetensors"))
    throw ConfigError(
        "{}: a checkpoint of adapters, without the model that they belong to.\n  Export it to a PEFT folder, merge "
        "that into its model (PEFT's merge_and_unload), and export the result.",
        folder.string());
  WholeWeights weights = without_source(folder);
  weights.source = std::make_unique<CheckpointSource>(folder);
  weights.step = contents.step;
  return weights;
}

}  // namespace

WholeWeights open_whole_weights(const fs::path& folder) {
  return is_checkpoint(folder) ? open_checkpoint(folder) : open_foreign_weights(folder);
}

}  // namespace trainer::checkpoint
