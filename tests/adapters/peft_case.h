// A folder of tests/golden/peft: an adapter of PEFT on a small model, and what it computes.
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
  config::LoraConfig options;  // as the folder says; inject() completes it

  const std::string& folder() const { return folder_; }
  bool causal() const { return task_ == models::Task::kCausalLm; }
  /// A model without values and without adapters.
  std::unique_ptr<models::Model> base() const;
  /// The model with its adapter, spread over `comm` as `type` says. `from_folder`: with the adapter's values, else as a
  /// new adapter starts. `checkpointed`: its blocks run again in backward.
  std::unique_ptr<parallel::ParallelModel> make(dist::Comm& comm, config::DistributedType type, bool from_folder,
                                                bool checkpointed = false);
  /// The samples first, first + step, …, with the placeholders of a prompt.
  models::Batch batch(size_t first = 0, size_t step = 1) const;
  /// Row of batch()'s source or target at which sample i's logits begin, and how many there are.
  nn::Span rows_of(const models::Batch& batch, size_t sample) const;

 private:
  std::string folder_, base_;
  models::Task task_;
  bool from_network_ = false;
  std::vector<std::vector<int64_t>> sources_, labels_;
};

}  // namespace trainer::testing
