#include "engine/dist/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include <ATen/ops/from_blob.h>

#include "engine/base/errors.h"
#include "engine/base/link_protocol.h"
#include "engine/base/round_up.h"
#include "engine/dist/memory.h"

namespace trainer::dist {
namespace {

/// Maps the memory (Note [Huge pages]). MAP_FAILED on an error.
void* map(const FileDescriptor& memory, int64_t bytes) {
  if (!memory) return MAP_FAILED;
  void* const at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory.get(), 0);
  if (at != MAP_FAILED) madvise(at, bytes, MADV_HUGEPAGE);
  return at;
}

/// Reserves a rank's part of the pages now, so that later writes can't run out of memory: the system clears them,
/// beside those of other ranks, and takes them from the memory that is near the rank's processor.
void reserve(const FileDescriptor& memory, void* at, int64_t bytes, const Comm& comm) {
  const auto begin_of = [&](int64_t rank) { return round_up(bytes * rank / comm.size(), getpagesize()); };
  const int64_t begin = begin_of(comm.rank()), length = std::min(begin_of(comm.rank() + 1), bytes) - begin;
  if (at == MAP_FAILED || length <= 0) return;
  if (madvise(static_cast<std::byte*>(at) + begin, length, MADV_POPULATE_WRITE) == 0) return;
  // Before Linux 5.14
  const int error = errno == EINVAL ? posix_fallocate(memory.get(), begin, length) : errno;
  if (error != 0)
    throw MachineError(
        "cannot reserve {} MiB of shared memory: {}.\n  Use fewer ranks on this machine, or a smaller model.",
        bytes >> 20, std::strerror(error));
}

/// Creates the memory on rank 0.
FileDescriptor create(int64_t bytes) {
  FileDescriptor memory(memfd_create("trainer shared weights", MFD_CLOEXEC));
  if (memory && ftruncate(memory.get(), bytes) != 0) memory.reset();
  return memory;
}

}  // namespace

bool may_share_memory() {
  const char* const given = std::getenv("TRAINER_SHARE_MEMORY");
  return given == nullptr || std::string_view(given) != "0";
}

std::string path_for_others(const FileDescriptor& memory) {
  return fmt::format("/proc/{}/fd/{}", getpid(), memory.get());
}

FileDescriptor open_memory(const std::string& path) {
  return FileDescriptor(open(path.c_str(), O_RDWR | O_CLOEXEC));
}

at::Tensor map_shared_memory(Comm& comm, int64_t bytes) {
  if (!may_share_memory()) return {};
  FileDescriptor memory = comm.rank() == 0 ? create(bytes) : FileDescriptor();
  const auto paths = comm.gather_text(path_for_others(memory));
  if (comm.rank() != 0) memory = open_memory(paths[0]);
  void* const at = map(memory, bytes);
  reserve(memory, at, bytes, comm);
  const bool all_have_it =
      comm.max(at == MAP_FAILED ? 1 : 0) == 0;  // also: rank 0 keeps it open until all have opened it
  if (!all_have_it) {
    if (at != MAP_FAILED) munmap(at, bytes);
    return {};
  }
  const int64_t share = bytes / comm.size();
  add_tensor_bytes(share);
  return at::from_blob(
      at, {bytes},
      [bytes, share](void* p) {
        munmap(p, bytes);
        add_tensor_bytes(-share);
      },
      at::kByte);
}

at::Tensor shared_floats(Comm& comm, int64_t count) {
  const at::Tensor memory = comm.shared_memory(count * static_cast<int64_t>(sizeof(float)));
  return memory.defined() ? memory.view(at::kFloat) : memory;
}

bool ranks_share_a_machine() {
  return std::getenv(kAddressVariable) == nullptr;
}

}  // namespace trainer::dist
