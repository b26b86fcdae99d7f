// The all-reduce of large tensors.
#pragma once

#include <memory>
#include <vector>

#include "engine/dist/mpi/mpi_thread.h"
#include "engine/dist/mpi/mpi_types.h"

namespace trainer::dist {

/// The tensor to reduce in place, and the communicator.
struct ReduceTask {
  MPI_Comm comm;
  int rank, size;
  char* data;
  int64_t count;
  int64_t element_bytes;
  c10::ScalarType type;
  c10d::ReduceOp op;
};

/// A reduce-scatter followed by an all-gather, segment by segment: twice as fast as Open MPI's non-blocking all-reduce,
/// which sends everything to one rank when there are two or three. Every element is reduced in rank order, independent
/// of its position in the tensor. Returns the stages of an operation of MpiThread.
std::vector<MpiStage> reduce_by_exchange(const ReduceTask& task);

}  // namespace trainer::dist
