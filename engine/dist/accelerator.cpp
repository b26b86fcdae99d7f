#include "engine/dist/accelerator.h"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>

#include "engine/base/errors.h"
#include "engine/base/gpu_library.h"
#include "engine/dist/memory.h"
#include "engine/operators/lazy_registration.h"

namespace trainer::dist {
namespace {

using Entry = const Accelerator*();

void* open_library(const std::string& path) {
  const operators::KeepRegistrations keep;
  // Global: its dependencies resolve each other's symbols.
  return dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
}

const Accelerator* load_library() {
  const std::string path = gpu_library_path();
  if (!std::filesystem::exists(path)) return nullptr;
  setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID", /*overwrite=*/0);  // Note [Finding GPUs]
  void* const library = open_library(path);
  auto* const entry = library != nullptr ? reinterpret_cast<Entry*>(dlsym(library, "trainer_accelerator")) : nullptr;
  if (entry == nullptr)
    throw MachineError("{} cannot be loaded: {}\n  `tools/setup.sh --cuda` installs the libraries it needs.", path,
                       dlerror());
  return entry();
}

}  // namespace

const Accelerator* find_accelerator() {
  static const Accelerator* const found = load_library();
  return found;
}

c10::Device take_device(int local_rank, int local_ranks, bool shared) {
  const Accelerator* const accelerator = find_accelerator();
  if (accelerator == nullptr)
    throw MachineError(
        "{} is missing: this build has no GPU support.\n  Build with -DTRAINER_CUDA=ON, or train with "
        "use_cpu: true.",
        gpu_library_path());
  const int count = accelerator->count();
  if (count == 0)
    throw MachineError("this machine has no usable GPU: {}.\n  use_cpu: true trains on the CPU.",
                       accelerator->why_none());
  if (count < local_ranks && !shared)
    throw MachineError(
        "{} ranks of this machine need a GPU each, but it has {}.\n  Lower num_processes, or set training.ddp_backend: "
        "gloo, which lets ranks share a GPU.",
        local_ranks, count);
  const int index = local_rank % count;
  accelerator->use(index);
  return {accelerator->type(), static_cast<c10::DeviceIndex>(index)};
}

int64_t peak_tensor_bytes(c10::Device device) {
  return device.is_cpu() ? peak_tensor_bytes() : find_accelerator()->peak_bytes(device.index());
}

}  // namespace trainer::dist
