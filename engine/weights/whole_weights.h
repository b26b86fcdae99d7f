// The weights of a whole model.
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

/// The model that `folder`/config.json describes and the files beside it, without a source of weights.
/// Errors: InputError; ConfigError when the model isn't of LLaMA's architecture.
WholeWeights without_source(const std::filesystem::path& folder);

/// Opens a Hugging Face model folder, or a folder in Megatron's layout, of a family with LLaMA's architecture.
/// Errors: InputError when it is neither, or is damaged; ConfigError for other families.
WholeWeights open_foreign_weights(const std::filesystem::path& folder);

/// The names of the text files in a model folder, sorted: configuration and tokenizer, nothing about the weights.
std::vector<std::string> files_beside(const std::filesystem::path& folder);

}  // namespace trainer::checkpoint
