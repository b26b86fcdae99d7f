#pragma once

#include <vector>

#include "engine/dist/comm.h"

namespace trainer::parallel {

// Note [Gradients in shared memory]
// Where ranks share memory, a unit's gradients are computed in memory that all of them read: each rank then adds up its
// shard of them, and nothing is copied into the slots of a collective. The memory stays, so that its pages are
// allocated once. It has space for the root's gradients, which exist during a whole backward pass, and for those of two
// other units: when a rank computes those of the next one, others may still be reading those of the last. They have
// read them when all ranks have come to the next collective.

/// Memory for the gradients of the unit that is in its backward pass, and of the root.
class SharedGradients {
 public:
  /// Collective. Bytes of a rank's gradients: those of the root, and the most of any other unit; 0: none.
  SharedGradients(dist::Comm& comm, int64_t of_root, int64_t of_unit);

  /// Memory [R, bytes] for gradients of all ranks, of which each writes its own row; undefined if there is none left.
  /// The same on all ranks.
  at::Tensor take(int64_t bytes);
  /// Collective. dist::sum_shared() of memory that was taken, viewed as `rows`, and gives it back.
  void sum(const at::Tensor& rows, const at::Tensor& to, bool add);
  /// Call after another collective of all ranks.
  void passed_collective() { ++collectives_; }

 private:
  struct Slot {
    at::Tensor memory;  // [R, bytes]
    bool taken = false;
    int64_t read_before = 0;  // the number of the collective at which all ranks have read it
  };

  dist::Comm& comm_;
  std::vector<Slot> slots_;  // the smallest first
  int64_t collectives_ = 0;  // so far
};

}  // namespace trainer::parallel
