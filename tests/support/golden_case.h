// A folder of tests/golden/t5: a small model, batches, and the results of transformers and PEFT.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "engine/config/plan/plan.h"
#include "engine/dist/comm.h"
#include "engine/optim/optimizer.h"
#include "engine/optim/schedule.h"
#include "engine/parallel/parallel_model.h"
#include "engine/tensorfile/safetensors_file.h"

namespace trainer::testing {

struct GoldenCase {
  /// `name`, for example "v1_0" or "v1_0/lora_qv".
  explicit GoldenCase(const std::string& name);

  config::Plan plan;  // one rank; LoRA from the case's adapter folder
  std::vector<models::Batch> batches;
  nlohmann::json expected;
  tensorfile::SafetensorsFile tensors;

  bool lora() const { return plan.config.lora.has_value(); }
  /// The name of a parameter's gradient in `tensors`.
  std::string gradient_name(const std::string& parameter) const;
};

/// Samples as one batch; sample i has sample index first + i.
models::Batch make_batch(const std::vector<std::vector<int64_t>>& sources,
                         const std::vector<std::vector<int64_t>>& labels, int64_t first = 0);

/// The model of a plan over `comm`, with its values.
std::unique_ptr<parallel::ParallelModel> make_model(const config::Plan& plan, dist::Comm& comm);

/// ||a - b|| / ||b|| in fp64.
double relative_error(const at::Tensor& a, const at::Tensor& b);

}  // namespace trainer::testing
