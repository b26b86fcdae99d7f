#include "engine/train/conditions.h"

#include <cstdlib>

#include <ATen/Context.h>
#include <ATen/Version.h>
#include <torch/headeronly/version.h>

#include "engine/base/errors.h"
#include "engine/config/names.h"

namespace trainer::train {

Conditions conditions_of(const config::Config& config, int64_t ranks) {
  return {{"ranks", std::to_string(ranks)},
          {"num_machines", std::to_string(config.num_machines)},
          {"distributed_type", std::string(config::name_of(config.distributed_type))},
          {"mixed_precision", std::string(config::name_of(config.mixed_precision))},
          {"threads of a rank", std::to_string(at::get_num_threads())},
          {"per_device_train_batch_size", std::to_string(config.training.per_device_train_batch_size)},
          {"instructions of the CPU", at::get_cpu_capability()},
          {"libtorch", TORCH_VERSION}};
}

void use_deterministic_algorithms() {
  setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", 0);
  at::globalContext().setDeterministicAlgorithms(true, false);
  at::globalContext().setDeterministicCuDNN(true);
  at::globalContext().setBenchmarkCuDNN(false);
}

void require_same_conditions(const Conditions& before, const Conditions& now, const std::string& folder) {
  std::string differing;
  for (const auto& [name, value] : before)
    if (const auto its = now.find(name); its != now.end() && its->second != value)
      differing += fmt::format("{}{} was {} and is {}", differing.empty() ? "" : "; ", name, value, its->second);
  if (differing.empty()) return;
  throw ConfigError(
      "{}: deterministic is true, but a run resumed here would not be equal bit for bit: {}.\n  Resume under the same "
      "conditions, or set deterministic: false.",
      folder, differing);
}

}  // namespace trainer::train
