#include "engine/dist/shm/collectives.h"

#include <algorithm>
#include <cstring>

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/amax.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/sum.h>
#include <torch/csrc/distributed/c10d/Work.hpp>

namespace trainer::dist::shm {
namespace {

using c10d::OpType;
using ReduceOp = c10d::ReduceOp::RedOpType;

/// From this size on, each rank reduces a part of the values for all: another step, but less work.
constexpr int64_t kLargeBytes = 16 << 10;

void copy_bytes(std::byte* to, const std::byte* from, int64_t bytes) {
  if (bytes > 0) std::memcpy(to, from, static_cast<size_t>(bytes));
}

struct Values {
  explicit Values(const at::Tensor& tensor)
      : at(static_cast<std::byte*>(tensor.mutable_data_ptr())),
        count(tensor.numel()),
        width(tensor.element_size()),
        dtype(tensor.scalar_type()) {}

  std::byte* at;
  int64_t count, width;
  at::ScalarType dtype;
};

Call call_of(OpType kind, const Values& values, int64_t count) {
  return {static_cast<int32_t>(kind), static_cast<int32_t>(values.dtype), count * values.width};
}

/// Reduces `count` values, from `offset` on, of all ranks' slots into `to`.
void reduce(const Region& region, int64_t offset, int64_t count, const Values& values, std::byte* to,
            ReduceOp op) {
  if (count == 0) return;
  const at::AutoDispatchBelowADInplaceOrView no_autograd;
  const at::TensorOptions options(values.dtype);
  const at::Tensor all = at::from_blob(region.slot(0) + offset * values.width, {region.size(), count},
                                       {Region::slot_stride() / values.width, 1}, options);
  at::Tensor result = at::from_blob(to, {count}, options);
  if (op == ReduceOp::MAX)
    at::amax_out(result, all, 0);
  else
    at::sum_out(result, all, 0, /*keepdim=*/false, values.dtype);
}

struct Part {
  int64_t begin, count;
};

/// The part of `count` values that a rank reduces.
Part part_of(int rank, int size, int64_t count) {
  const int64_t share = (count + size - 1) / size, begin = std::min(rank * share, count);
  return {begin, std::min(share, count - begin)};
}

}  // namespace

void all_reduce(Region& region, const at::Tensor& tensor, ReduceOp op) {
  const Values values(tensor);
  const int rank = region.rank(), size = region.size();
  int64_t at = 0;
  do {
    const int64_t count = std::min(kSlotBytes / values.width, values.count - at);
    std::byte* const here = values.at + at * values.width;
    copy_bytes(region.slot(region.rank()), here, count * values.width);
    region.step(call_of(OpType::ALLREDUCE, values, values.count));
    if (count * values.width < kLargeBytes) {
      reduce(region, 0, count, values, here, op);
    } else {
      const Part mine = part_of(rank, size, count);
      reduce(region, mine.begin, mine.count, values, here + mine.begin * values.width, op);
      // Only this rank reads this part of its slot until now.
      copy_bytes(region.slot(region.rank()) + mine.begin * values.width, here + mine.begin * values.width, mine.count * values.width);
      region.step(call_of(OpType::ALLREDUCE, values, values.count));
      for (int peer = 0; peer < size; ++peer) {
        const Part theirs = part_of(peer, size, count);
        const int64_t offset = theirs.begin * values.width;
        if (peer != rank) copy_bytes(here + offset, region.slot(peer) + offset, theirs.count * values.width);
      }
    }
    region.next_turn();
    at += count;
  } while (at < values.count);
}

void all_gather(Region& region, const at::Tensor& full, const at::Tensor& shard) {
  const Values from(shard);
  auto* const to = static_cast<std::byte*>(full.mutable_data_ptr());
  const int64_t bytes = from.count * from.width;
  int64_t at = 0;
  do {
    const int64_t count = std::min(kSlotBytes, bytes - at);
    copy_bytes(region.slot(region.rank()), from.at + at, count);
    region.step(call_of(OpType::_ALLGATHER_BASE, from, from.count));
    for (int peer = 0; peer < region.size(); ++peer) copy_bytes(to + peer * bytes + at, region.slot(peer), count);
    region.next_turn();
    at += count;
  } while (at < bytes);
}

void reduce_scatter(Region& region, const at::Tensor& shard, const at::Tensor& full, ReduceOp op) {
  const Values to(shard), from(full);
  const int64_t most = kSlotBytes / to.width / region.size();
  int64_t at = 0;
  do {
    const int64_t count = std::min(most, to.count - at);
    for (int peer = 0; peer < region.size(); ++peer)
      copy_bytes(region.slot(region.rank()) + peer * count * to.width, from.at + (peer * to.count + at) * to.width, count * to.width);
    region.step(call_of(OpType::_REDUCE_SCATTER_BASE, to, to.count));
    reduce(region, region.rank() * count, count, to, to.at + at * to.width, op);
    region.next_turn();
    at += count;
  } while (at < to.count);
}

void barrier(Region& region) {
  region.step({static_cast<int32_t>(OpType::BARRIER), 0, 0});
}

}  // namespace trainer::dist::shm
