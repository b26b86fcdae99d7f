// Counts the memory that tensors would need. Tensors on libtorch's meta device have shapes, dtypes and storages, but no
// memory and no values. So the training code itself can be run to find out how much memory it needs, without a second
// description of it to maintain (Note [Dry run] in engine/train/memory_plan.h).
#pragma once

#include <cstdint>

#include <c10/core/Allocator.h>

namespace trainer::dist {

/// Bytes of meta tensors at one moment.
struct DryBytes {
  int64_t all = 0;
  int64_t communication = 0;  // of these, allocated within a CommunicationMemory
  int64_t host = 0;           // in addition: allocated within a HostMemory
};

/// Counts meta tensors from the first call on, separately for each thread.
void count_dry_memory();

DryBytes dry_bytes();
/// The moment since the last reset when `all` was largest; `host` is the peak of the host's bytes.
DryBytes peak_dry_bytes();
void reset_peak_dry_bytes();

/// A storage of `bytes`, of which only `counted` count as this rank's.
at::DataPtr dry_allocation(int64_t bytes, int64_t counted);

/// During its lifetime, this thread's allocations count as memory of the host, next to the device that the dry run stands
/// for. Only has an effect in a dry run.
class HostMemory {
 public:
  explicit HostMemory(bool applies = true);
  ~HostMemory();
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;

 private:
  bool before_;
};

/// During its lifetime, this thread's allocations count as communication memory: gathered units, gradients being
/// reduced, and the transport's copies. Only has an effect in a dry run.
class CommunicationMemory {
 public:
  CommunicationMemory();
  ~CommunicationMemory();
  CommunicationMemory(const CommunicationMemory&) = delete;
  CommunicationMemory& operator=(const CommunicationMemory&) = delete;

 private:
  bool before_;
};

}  // namespace trainer::dist
