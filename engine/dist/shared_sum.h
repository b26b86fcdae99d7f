// Sums over the ranks of what they have written to memory that they share, without sending it. Their bits are those of
// the ranks' collectives (but MPI's).
#pragma once

#include <vector>

#include "engine/dist/comm.h"

namespace trainer::dist {

/// Collective, of several ranks. `rows` [R, n * R] is in comm.shared_memory(), and row r is rank r's. Writes this
/// rank's shard [n] of the sum of all rows to `to` [n], or adds it, as reduce_scatter() would. Rows may be written
/// again after the next collective of `comm`.
void sum_shared(Comm& comm, const at::Tensor& rows, const at::Tensor& to, bool add);

/// Collective, of several ranks. Writes the sum of all rows [n] to each of them, as all_reduce() of tensors of these
/// `sizes` would, which lie one after the other in a row.
void sum_shared_everywhere(Comm& comm, const at::Tensor& rows, const std::vector<int64_t>& sizes);

}  // namespace trainer::dist
