#pragma once

#include <torch/csrc/distributed/c10d/Types.hpp>

#include "engine/dist/shm/region.h"

namespace trainer::dist::shm {

// Collectives of the region's ranks, through their slots. Tensors are contiguous and on the CPU.

/// The sum or maximum over the ranks, in place.
void all_reduce(Region& region, const at::Tensor& tensor, c10d::ReduceOp::RedOpType op);
/// Concatenates the ranks' `shard` [n] into `full` [n * size].
void all_gather(Region& region, const at::Tensor& full, const at::Tensor& shard);
/// This rank's `shard` [n] of the sum over the ranks of `full` [n * size]; it may be that part of `full`.
void reduce_scatter(Region& region, const at::Tensor& shard, const at::Tensor& full, c10d::ReduceOp::RedOpType op);
void barrier(Region& region);

}  // namespace trainer::dist::shm
