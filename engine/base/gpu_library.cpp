#include "engine/base/gpu_library.h"

#include <cstdlib>
#include <filesystem>

#include <fmt/format.h>

#include "engine/base/beside_program.h"
#include "engine/base/listed.h"

namespace trainer {
namespace {

/// SLURM's jobs see only the GPUs that they asked for.
bool is_slurm_job_without_gpus() {
  const char* const gpus = std::getenv("SLURM_GPUS_ON_NODE");
  return std::getenv("SLURM_JOB_ID") != nullptr && (gpus == nullptr || std::string_view(gpus) == "0");
}

std::string why_none(const GpuMachine& machine, const std::optional<std::string>& variable) {
  if (is_slurm_job_without_gpus()) return "this SLURM job has no GPU: ask for them (--gpus-per-node, or --gres=gpu:N)";
  if (!machine.gpus.empty() && variable)
    return fmt::format("CUDA_VISIBLE_DEVICES is '{}', which selects none of this machine's {}", *variable,
                       counted(machine.gpus.size(), "GPU", "GPUs"));
  if (!machine.gpus.empty()) return "this machine's GPUs are in MIG mode, but have no instances (nvidia-smi mig -cgi)";
  if (!machine.trouble.empty())
    return fmt::format("this machine shows no NVIDIA GPU: its driver does not work ({})", machine.trouble);
  return "this machine shows no NVIDIA GPU (is its driver installed? containers need `--gpus all`)";
}

}  // namespace

bool has_other_accelerator() {
  return std::getenv(kAcceleratorVariable) != nullptr;
}

std::string gpu_library_path() {
  if (const char* const other = std::getenv(kAcceleratorVariable)) return other;
  return beside_program("libtrainer_cuda.so").string();
}

int64_t count_visible_gpus() {
  return std::ssize(visible_gpus(gpus_here(), cuda_visible_devices()));
}

std::string why_too_few_gpus(const GpuMachine& machine, const std::optional<std::string>& variable, int64_t ranks) {
  const int64_t gpus = std::ssize(visible_gpus(machine, variable)), all = std::ssize(visible_gpus(machine, {}));
  if (gpus == 0) return why_none(machine, variable);
  if (gpus >= ranks) return "";
  if (gpus < all)
    return fmt::format("{} ranks per machine need a GPU each, but CUDA_VISIBLE_DEVICES '{}' selects {} of {}", ranks,
                       variable.value_or(""), gpus, all);
  return fmt::format("{} ranks per machine need a GPU each, but this machine has {}", ranks, gpus);
}

bool driver_fails() {
  return !has_other_accelerator() && std::filesystem::exists(gpu_library_path()) && gpus_here().gpus.empty() &&
         !gpus_here().trouble.empty() && !is_slurm_job_without_gpus();
}

std::string why_no_gpus(int64_t ranks) {
  if (!std::filesystem::exists(gpu_library_path())) return "this build has no GPU support";
  if (has_other_accelerator()) return "";  // the ranks ask that library
  return why_too_few_gpus(gpus_here(), cuda_visible_devices(), ranks);
}

}  // namespace trainer
