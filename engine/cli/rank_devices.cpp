#include "engine/cli/rank_devices.h"

#include "engine/base/errors.h"
#include "engine/base/gpu_faults.h"
#include "engine/base/gpu_library.h"
#include "engine/base/log.h"
#include "engine/config/machine/device.h"

namespace trainer::cli {

std::vector<launch::RankPlace> check_devices(const config::Config& config,
                                             const std::vector<launch::PeerPlace>& peers) {
  if (const std::string why = config::why_on_cpu(config); !why.empty()) log::info("training on the CPU: {}", why);
  if (!config::trains_on_gpus(config) || has_other_accelerator()) return launch::rank_places(config, {}, {}, peers);
  const GpuMachine& machine = gpus_here();
  // A driver that does not work shows no GPUs to place the ranks on.
  if (const std::string fault = gpu_fault(machine, {}); !fault.empty()) throw MachineError(fault);
  const std::optional<std::string> visible = cuda_visible_devices();
  const std::vector<launch::RankPlace> places = launch::rank_places(config, machine, visible, peers);
  const std::vector<VisibleGpu> gpus = launch::gpus_in_use(config, machine, visible, places);
  if (const std::string fault = gpu_fault(machine, gpus); !fault.empty()) throw MachineError(fault);
  for (const std::string& warning :
       gpu_warnings(machine, gpus, config.mixed_precision == config::MixedPrecision::kBf16))
    log::warning("{}", warning);
  log::info("{}", config::gpus_text(config, machine, gpus));
  return places;
}

}  // namespace trainer::cli
