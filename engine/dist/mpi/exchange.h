// The all-reduce of large tensors.
#pragma once

#include <memory>
#include <vector>

#include "engine/dist/mpi/mpi_thread.h"
#include "engine/dist/mpi/mpi_types.h"

namespace trainer::dist {

/// What is reduced in place, and among whom.
struct ReduceTask {
  MPI_Comm comm;
  int rank, size;
  char* data;
  int64_t count;
  int64_t element_bytes;
  c10::ScalarType type;
  c10d::ReduceOp op;
};

/// Ranks exchange pieces of which each owns one, reduce what they own, and exchange the results: twice as fast as
/// Open MPI's non-blocking all-reduce, which for two or three ranks sends all to one of them. Every element is reduced
/// in the order of the ranks, wherever it lies in the tensor. The stages of an operation of MpiThread.
std::vector<MpiStage> reduce_by_exchange(const ReduceTask& task);

}  // namespace trainer::dist
