// A folder of tests/golden/peft: a PEFT adapter on a small model, and its expected results.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "engine/config/sections.h"
#include "engine/parallel/parallel_model.h"
#include "engine/tensorfile/safetensors_file.h"

namespace trainer::testing {

class PeftCase {
 public:
  explicit PeftCase(const std::string& name);

  nlohmann::json expected;
  tensorfile::SafetensorsFile tensors;
  config::LoraConfig options;  // from the folder; inject() completes them

  const std::string& folder() const { return folder_; }
  const std::string& base_folder() const { return base_; }
  bool causal() const { return task_ == models::Task::kCausalLm; }
  /// A model without values and without adapters.
  std::unique_ptr<models::Model> base() const;
  /// The model with its adapter, parallelized over `comm` by `type`. `from_folder`: with the adapter's values;
  /// otherwise the adapter is newly initialized. `checkpointed`: with activation checkpointing.
  std::unique_ptr<parallel::ParallelModel> make(dist::Comm& comm, config::DistributedType type, bool from_folder,
                                                bool checkpointed = false);
  /// The samples first, first + step, …, with the placeholders of a virtual prompt.
  models::Batch batch(size_t first = 0, size_t step = 1) const;
  /// Expects that the logits of `model` have at most this relative error to PEFT's, in every sample.
  void expect_logits(models::Model& model, double tolerance) const;
  /// The rows of sample i's logits in batch()'s source or target.
  nn::Span rows_of(const models::Batch& batch, size_t sample) const;

 private:
  std::string folder_, base_;
  models::Task task_;
  bool from_network_ = false;
  std::vector<std::vector<int64_t>> sources_, labels_;
};

}  // namespace trainer::testing
