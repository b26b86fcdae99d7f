#include "engine/cli/rank_devices.h"

#include <algorithm>
#include <limits>

#include "engine/base/errors.h"
#include "engine/base/gpu_faults.h"
#include "engine/base/gpu_library.h"
#include "engine/base/log.h"
#include "engine/config/machine/device.h"

namespace trainer::cli {
namespace {

/// What each of `ranks` finds free on the fullest of these GPUs, which they share; 0 if unknown.
int64_t free_bytes(const std::vector<VisibleGpu>& gpus, int64_t ranks) {
  int64_t least = std::numeric_limits<int64_t>::max();
  for (const VisibleGpu& one : gpus) least = std::min(least, one.total_bytes() - one.used_bytes());
  const int64_t count = std::ssize(gpus);
  return count == 0 ? 0 : least / std::max<int64_t>(1, (ranks + count - 1) / count);
}

/// Throws what is wrong with the GPUs, and logs what is worth knowing about them.
void check(const GpuMachine& machine, const std::vector<VisibleGpu>& gpus, bool bf16) {
  if (const std::string fault = gpu_fault(machine, gpus); !fault.empty()) throw MachineError("{}", fault);
  for (const std::string& warning : gpu_warnings(machine, gpus, bf16)) log::warning("{}", warning);
}

}  // namespace

RankDevices check_devices(const config::Config& config, const std::vector<launch::PeerPlace>& peers) {
  if (const std::string why = config::why_on_cpu(config); !why.empty()) log::info("training on the CPU: {}", why);
  if (!config::trains_on_gpus(config) || has_other_accelerator())
    return {.places = launch::rank_places(config, {}, {}, peers)};
  const GpuMachine& machine = gpus_here();
  // A driver that does not work shows no GPUs to place the ranks on.
  if (const std::string fault = gpu_fault(machine, {}); !fault.empty()) throw MachineError("{}", fault);
  const std::optional<std::string> visible = cuda_visible_devices();
  RankDevices devices{.places = launch::rank_places(config, machine, visible, peers)};
  const std::vector<VisibleGpu> gpus = launch::gpus_in_use(config, machine, visible, devices.places);
  check(machine, gpus, config.mixed_precision == config::MixedPrecision::kBf16);
  log::info("{}", config::gpus_text(config, machine, gpus));
  devices.free_bytes = free_bytes(gpus, config::ranks_per_machine(config));
  return devices;
}

void require_gpus(int64_t ranks) {
  const std::string lacking = why_no_gpus(ranks);
  if (!lacking.empty() && !driver_fails()) throw MachineError("--device cuda: {}", lacking);
}

void check_first_gpu() {
  require_gpus(1);
  if (has_other_accelerator()) return;
  std::vector<VisibleGpu> gpus = visible_gpus(gpus_here(), cuda_visible_devices());
  if (!gpus.empty()) gpus.resize(1);
  check(gpus_here(), gpus, /*bf16=*/false);
}

}  // namespace trainer::cli
