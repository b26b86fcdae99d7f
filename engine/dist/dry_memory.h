// Memory that tensors would need. Tensors of libtorch's meta device have shapes, dtypes and storages, but no memory and
// no values; here what they would hold is counted. So the code that trains can be run to learn what it will need, and
// there is no second description of it to keep in step (Note [Dry run] in engine/train/memory_plan.h).
#pragma once

#include <cstdint>

#include <c10/core/Allocator.h>

namespace trainer::dist {

/// Bytes of tensors without memory, now or at some moment.
struct DryBytes {
  int64_t all = 0;
  int64_t communication = 0;  // of these, allocated within a CommunicationMemory
};

/// Counts meta tensors from the first call on, each thread its own.
void count_dry_memory();

DryBytes dry_bytes();
/// The moment with the most bytes since the last reset.
DryBytes peak_dry_bytes();
void reset_peak_dry_bytes();

/// A storage for `bytes` of which only `counted` are this rank's.
at::DataPtr dry_allocation(int64_t bytes, int64_t counted);

/// While it lives, what this thread allocates is memory for communication: whole units, gradients on their way, and
/// copies that the transport makes. Means something in a dry run only.
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
