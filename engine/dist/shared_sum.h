#pragma once

#include "engine/dist/comm.h"

namespace trainer::dist {

/// Collective, of several ranks. Sums what they have written to memory that they share, without sending it: `rows` [R,
/// n * R] is in comm.shared_memory(), and row r is rank r's. Writes this rank's shard [n] of the sum of all rows to
/// `to` [n], or adds it, with the bits of reduce_scatter() (but MPI's). Rows may be written again after the next
/// collective of `comm`.
void sum_shared(Comm& comm, const at::Tensor& rows, const at::Tensor& to, bool add);

}  // namespace trainer::dist
