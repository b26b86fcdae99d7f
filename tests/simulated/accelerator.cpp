// libtrainer_simulated.so: the device of Note [Simulated accelerator] as an accelerator of real ranks
// (TRAINER_ACCELERATOR_LIBRARY). With TRAINER_EMULATED_KERNELS, the ranks' layers run the CUDA kernels on it.
#include "engine/dist/accelerator.h"

#include <cstdlib>
#include <fstream>
#include <string>

#include "tests/simulated/communicator.h"
#include "tests/simulated/device.h"
#include "tests/simulated/graphs.h"
#include "tests/simulated/kernels.h"

namespace trainer::simulated {
namespace {

/// With TRAINER_SIMULATED_RECORDER, the name of a folder, a rank writes there what NCCL's flight recorder, which starts
/// with the communicator, would read.
void note_recorder(int rank) {
  const char* const folder = std::getenv("TRAINER_SIMULATED_RECORDER");
  if (folder == nullptr) return;
  const char* const entries = std::getenv("TORCH_FR_BUFFER_SIZE");
  std::ofstream(std::string(folder) + "/" + std::to_string(rank)) << (entries != nullptr ? entries : "unset");
}

class Simulated : public dist::Accelerator {
 public:
  c10::DeviceType type() const override { return c10::DeviceType::PrivateUse1; }
  int count() const override { return device_count(); }
  std::string why_none() const override { return "TRAINER_SIMULATED_DEVICES is 0"; }
  dist::DeviceFacts facts(int index) const override {
    return {"simulated device", memory_limit() - reserved_bytes(index), memory_limit()};
  }
  void use(int index) const override { simulated::use(index); }
  int64_t peak_bytes(int index) const override { return simulated::peak_bytes(index); }
  void forget_peak(int index) const override { simulated::forget_peak(index); }
  const nn::DeviceKernels* kernels() const override {
    return std::getenv("TRAINER_EMULATED_KERNELS") != nullptr ? &simulated::kernels() : nullptr;
  }
  bool has_flash_attention(int) const override { return true; }
  bool has_efficient_attention(int) const override { return true; }
  bool has_cudnn_attention(int) const override { return true; }
  bool has_fused_norms() const override { return true; }
  std::unique_ptr<dist::GraphRecorder> graph_recorder(int) const override { return simulated::graph_recorder(); }
  c10::intrusive_ptr<c10d::Backend> collectives(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                                int index, std::chrono::seconds timeout) const override {
    note_recorder(rank);
    const char* const shorter = std::getenv("TRAINER_SIMULATED_TIMEOUT_MS");
    auto made = c10::make_intrusive<Communicator>(store, rank, size, index,
                                                  shorter ? std::chrono::milliseconds(std::atoll(shorter)) : timeout);
    made->setBoundDeviceId(at::Device(kType, static_cast<c10::DeviceIndex>(index)));
    return made;
  }
};

/// With TRAINER_SIMULATED_COUNTS, the name of a folder, a rank writes its counters there when it ends.
struct WritesCounters {
  ~WritesCounters() {
    const char* const folder = std::getenv("TRAINER_SIMULATED_COUNTS");
    const char* const rank = std::getenv("RANK");
    if (folder == nullptr || rank == nullptr) return;
    const Counters all = counters();
    std::ofstream(std::string(folder) + "/" + rank)
        << all.launches << " " << all.synchronizations << " " << all.copies << "\n";
  }
};

}  // namespace
}  // namespace trainer::simulated

extern "C" __attribute__((visibility("default"))) const trainer::dist::Accelerator* trainer_accelerator() {
  static const trainer::simulated::WritesCounters at_end;
  static const trainer::simulated::Simulated simulated;
  return &simulated;
}
