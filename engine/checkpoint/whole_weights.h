// The weights of a whole model, wherever they are kept.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "engine/parallel/weight_source.h"
#include "models/model.h"

namespace trainer::checkpoint {

/// One model of a folder, with a source of its weights.
struct WholeWeights {
  std::unique_ptr<models::Model> model;
  std::unique_ptr<parallel::WeightSource> source;
  std::vector<std::string> beside;  // the folder's other files that a model folder needs: configuration, tokenizer
  int64_t step = -1;                // updates that a checkpoint had; -1: it is no checkpoint

  /// In its shape and stored dtype.
  at::Tensor read(const nn::Parameter& parameter) const;
};

/// Of a checkpoint (verified, every byte of it), a model folder of Hugging Face's, or a folder in Megatron's layout.
/// Of a family of LLaMA's architecture.
/// Errors: InputError when it is none of them, or not whole; ConfigError for adapters and other families.
WholeWeights open_whole_weights(const std::filesystem::path& folder);

}  // namespace trainer::checkpoint
