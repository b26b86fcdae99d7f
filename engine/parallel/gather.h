// Whole tensors from the ranks' shards, and back.
#pragma once

#include "engine/dist/comm.h"
#include "engine/parallel/logical_tensor.h"

namespace trainer::parallel {

/// Collective. Gathers the whole tensor [shape] on every rank from the ranks' shards without changing a bit. Of a
/// replicated tensor it is a view.
at::Tensor gather(const LogicalTensor& tensor, dist::Comm& comm);

/// The reverse: copies this rank's shard of `whole` [shape] into `shard` [end - begin]. `tensor` tells which it is.
void copy_shard(const at::Tensor& whole, const LogicalTensor& tensor, const at::Tensor& shard);

}  // namespace trainer::parallel
