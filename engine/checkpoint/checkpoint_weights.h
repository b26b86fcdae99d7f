// The weights of a whole model from any supported format.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "engine/checkpoint/whole_tensors.h"
#include "engine/parallel/weight_source.h"
#include "engine/weights/whole_weights.h"

namespace trainer::checkpoint {

/// The parameters in a checkpoint of a whole model.
class CheckpointSource : public parallel::WeightSource {
 public:
  /// Verifies every byte. Errors: InputError when it is damaged; ConfigError for a checkpoint of adapters.
  explicit CheckpointSource(const std::filesystem::path& folder);
  nn::Storage storage(const nn::Parameter& parameter) const override;
  void read(const nn::Parameter& parameter, int64_t begin, int64_t end, const at::Tensor& out) const override;

  /// Whether the output head that `model` ties to its embedding was trained as a weight of its own.
  bool head_is_separate(const models::Model& model) const;
  /// Errors: InputError when a weight of `model` is missing or has another shape.
  void check(models::Model& model) const;

 private:
  const SavedTensor& named(const nn::Parameter& parameter) const;

  std::filesystem::path folder_;
  mutable WholeTensors tensors_;  // opens files on demand
  std::map<std::string, const SavedTensor*> by_name_;
};

/// Opens a checkpoint (after verifying every byte), a Hugging Face model folder, or a folder in Megatron's layout, of a
/// family with LLaMA's architecture.
/// Errors: InputError when it is none of them, or is damaged; ConfigError for adapters and other families.
WholeWeights open_whole_weights(const std::filesystem::path& folder);

}  // namespace trainer::checkpoint
