// The weights of a whole model from any supported format.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "engine/parallel/weight_source.h"
#include "models/model.h"

namespace trainer::checkpoint {

/// The model of a folder, with a source of its weights.
struct WholeWeights {
  std::unique_ptr<models::Model> model;
  std::unique_ptr<parallel::WeightSource> source;
  std::vector<std::string> beside;  // the folder's other files that a model folder needs: configuration, tokenizer
  int64_t step = -1;                // of a checkpoint; -1: not a checkpoint

  /// The weight in its shape and storage dtype.
  at::Tensor read(const nn::Parameter& parameter) const;
};

/// Opens a checkpoint (after verifying every byte), a Hugging Face model folder, or a folder in Megatron's layout, of a
/// family with LLaMA's architecture.
/// Errors: InputError when it is none of them, or is damaged; ConfigError for adapters and other families.
WholeWeights open_whole_weights(const std::filesystem::path& folder);

}  // namespace trainer::checkpoint
