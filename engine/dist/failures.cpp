#include "engine/dist/failures.h"

#include <cerrno>
#include <cstring>
#include <string_view>

#include <c10/util/Exception.h>

#include "engine/base/indented.h"

namespace trainer::dist {
namespace {

using enum Failure;

/// A part of a message, and what it tells. `within`: only a message with that part, too, "" for any.
struct Sign {
  const char* part;
  const char* within;
  Failure failure;
  const char* meaning;
};

constexpr const char* kNccl = "NCCL error";
constexpr const char* kBrokenGpu =
    "a GPU or its connection failed. `nvidia-smi -q` and the driver's Xid lines in `dmesg` show which; leave it out "
    "with gpu_ids until it has been reset or replaced";
constexpr const char* kDriver =
    "a GPU of this machine can't be used. `nvidia-smi` shows its state, and NCCL_DEBUG=WARN the call that failed";
constexpr const char* kSharedMemory =
    "NCCL needs more shared memory, or the ranks of this machine don't share /dev/shm. For a container: docker run "
    "--shm-size=1g, or --ipc=host";
constexpr const char* kLockedMemory =
    "the network card could not lock memory. Raise the limit: ulimit -l unlimited, or docker run --ulimit memlock=-1";
constexpr const char* kGpuMemory = "the GPU's memory is exhausted";

// The first that is found counts. The texts: cudaGetErrorString() of CUDA 13, strings of NCCL 2.28, ProcessGroupNCCL.
const Sign kSigns[] = {
    {std::strerror(EBADMSG), "", kTamperedLink,  // of a tls::Session
     "the connection with another rank was tampered with: what arrived is not what that rank sent"},
    {"Duplicate GPU detected", kNccl, kMachine,
     "two ranks were given the same GPU. Each needs its own: look at gpu_ids and CUDA_VISIBLE_DEVICES"},
    {"uncorrectable ECC error", "", kMachine, kBrokenGpu},
    {"uncorrectable NVLink error", "", kMachine, kBrokenGpu},
    {"Invalid access of peer GPU memory over nvlink or a hardware error", "", kMachine, kBrokenGpu},
    {"hardware stack error", "", kMachine, kBrokenGpu},
    {"CUDA error: unknown error", "", kMachine, kBrokenGpu},
    {"CUDA error: CUDA-capable device(s) is/are busy or unavailable", "", kMachine,
     "a GPU is in exclusive use, or does not work. `nvidia-smi` shows its processes and its compute mode"},
    {"CUDA error: no kernel image is available", "", kMachine,
     "a GPU is older than this build is for; docs/gpu.md lists which are supported. Choose others with gpu_ids"},
    {"CUDA error: system not yet initialized", "", kMachine,
     "the GPUs' switches are not ready: is nvidia-fabricmanager running, in the version of the driver?"},
    {"CUDA error: out of memory", "", kMemory, kGpuMemory},
    {"CUBLAS_STATUS_ALLOC_FAILED", "", kMemory, kGpuMemory},
    {"can't allocate memory", "", kMemory, "this machine's memory is exhausted"},  // libtorch's allocator on CPUs
    {"Cuda failure 2 'out of memory'", kNccl, kMemory, kGpuMemory},
    {"shared memory segment", kNccl, kMachine, kSharedMemory},
    {"shared memory file", kNccl, kMachine, kSharedMemory},
    {"failed to extend /dev/shm", kNccl, kMachine, kSharedMemory},
    {"Call to ibv_reg_mr", kNccl, kMachine, kLockedMemory},
    {"Call to ibv_create_cq failed with error Cannot allocate memory", kNccl, kMachine, kLockedMemory},
    {"no socket interface found", kNccl, kMachine,
     "NCCL found no network interface. NCCL_SOCKET_IFNAME selects one: `ip addr` lists them"},
    {"Too many open files", kNccl, kMachine, "too many files are open. Raise the limit: ulimit -n 65536"},
    {"Cuda failure", kNccl, kMachine, kDriver},
    {"unhandled cuda error", kNccl, kMachine, kDriver},
    {"ncclInvalidArgument", "", kMistake, ""},
    {"ncclInvalidUsage", "", kMistake, ""},
    {"CUDA error", "", kUnknown, ""},  // an illegal access, say
    {kNccl, "", kLostRank, "another rank was lost"},
    {"gloo/transport/", "", kLostRank, "another rank was lost"},
    {"Watchdog caught collective operation timeout", "", kLostRank, "another rank was lost"},
};

const Sign* sign_in(const std::string& message) {
  for (const Sign& sign : kSigns)
    if (message.find(sign.part) != std::string::npos && message.find(sign.within) != std::string::npos) return &sign;
  return nullptr;
}

/// What only a mistake of ours can cause.
bool is_misuse(const std::exception& error, const std::string& text) {
  if (dynamic_cast<const c10::ValueError*>(&error) || dynamic_cast<const c10::TypeError*>(&error) ||
      dynamic_cast<const c10::NotImplementedError*>(&error))
    return true;
  for (const char* const sign : {"Tensors must be", "Invalid scalar type", "CUDA error"})
    if (text.find(sign) != std::string::npos) return true;
  return false;
}

}  // namespace

Failure failure_of(const std::string& message) {
  const Sign* const sign = sign_in(message);
  return sign != nullptr ? sign->failure : kUnknown;
}

std::string meaning_of(const std::string& message) {
  const Sign* const sign = sign_in(message);
  return sign != nullptr ? sign->meaning : "";
}

std::string details_of(const std::string& message) {
  constexpr std::string_view kHeading = "Last error:\n";
  const size_t at = message.find(kHeading);
  if (at == std::string::npos) return indented(message);
  const std::string before = message.substr(0, at), reason = message.substr(at + kHeading.size());
  const bool is_empty = reason.find_first_not_of(" \n") == std::string::npos;
  return indented(is_empty ? before : before + "Last error: " + reason);
}

void throw_translated(const char* what, const std::exception& error) {
  if (dynamic_cast<const c10::OutOfMemoryError*>(&error)) throw;
  const auto* const torch = dynamic_cast<const c10::Error*>(&error);
  const std::string text = torch ? torch->what_without_backtrace() : error.what();
  const Failure failure = failure_of(text);
  if (failure == kMachine || failure == kMemory)
    throw MachineError("{} failed: {}.\n{}", what, meaning_of(text), details_of(text));
  if (failure == kMistake || (failure == kUnknown && is_misuse(error, text)))
    throw InternalError("{} failed.\n{}", what, details_of(text));
  throw PeerError("{} failed: {}.\n{}", what, failure == kUnknown ? "another rank was lost" : meaning_of(text),
                  details_of(text));
}

}  // namespace trainer::dist
