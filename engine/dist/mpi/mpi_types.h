// Maps tensor types and reductions to MPI's.
#pragma once

#include <mpi.h>

#include <c10/core/ScalarType.h>
#include <torch/csrc/distributed/c10d/Types.hpp>

namespace trainer::dist {

/// How MPI reduces elements of one type.
struct MpiReduction {
  MPI_Datatype type;
  MPI_Op op;
};

/// Must be called on the MPI thread. Errors: std::runtime_error for unsupported types and reductions.
MpiReduction mpi_reduction(c10::ScalarType type, c10d::ReduceOp op);

/// A type of `bytes` bytes (1, 2, 4 or 8) for data that is only moved.
MPI_Datatype mpi_word(size_t bytes);

}  // namespace trainer::dist
