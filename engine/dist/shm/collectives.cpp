#include "engine/dist/shm/collectives.h"

#include <algorithm>
#include <cstring>

#include <ATen/Dispatch.h>

#include "engine/dist/gloo_order.h"

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

template <class T>
void reduce_into(T* to, const T* from, int64_t count, ReduceOp op) {
  if (op == ReduceOp::MAX)
    for (int64_t i = 0; i < count; ++i) to[i] = to[i] < from[i] ? from[i] : to[i];
  else
    for (int64_t i = 0; i < count; ++i) to[i] = to[i] + from[i];
}

/// Reduces into `to` the `count` values of all ranks' slots that begin at `offset` there and at `begin` in the tensor
/// of `total` values.
void reduce(const Region& region, const Values& values, int64_t offset, int64_t count, int64_t begin, int64_t total,
            std::byte* to, ReduceOp op) {
  const int size = region.size();
  const int64_t part = gloo_part(total, values.width, size);
  for (int64_t done = 0, length = 0; done < count; done += length) {
    const int64_t number = (begin + done) / part;
    length = std::min(count - done, (number + 1) * part - (begin + done));
    const auto of = [&](int64_t rank) {
      return region.slot(static_cast<int>((rank + 2 * size) % size)) + (offset + done) * values.width;
    };
    std::byte* const result = to + done * values.width;
    copy_bytes(result, of(number - 1), length * values.width);
    AT_DISPATCH_ALL_TYPES_AND2(at::kHalf, at::kBFloat16, values.dtype, "a reduction in shared memory", [&] {
      for (int64_t rank = number - 2; rank >= number - size; --rank)
        reduce_into(reinterpret_cast<scalar_t*>(result), reinterpret_cast<const scalar_t*>(of(rank)), length, op);
    });
  }
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
  const Call call = call_of(OpType::ALLREDUCE, tensor);
  const int rank = region.rank(), size = region.size();
  int64_t at = 0;
  do {
    const int64_t count = std::min(kSlotBytes / values.width, values.count - at);
    std::byte* const here = values.at + at * values.width;
    copy_bytes(region.own_slot(), here, count * values.width);
    region.step(call);
    if (count * values.width < kLargeBytes) {
      reduce(region, values, 0, count, at, values.count, here, op);
    } else {
      const Part mine = part_of(rank, size, count);
      reduce(region, values, mine.begin, mine.count, at + mine.begin, values.count, here + mine.begin * values.width,
             op);
      // Only this rank reads this part of its slot until now.
      copy_bytes(region.own_slot() + mine.begin * values.width, here + mine.begin * values.width,
                 mine.count * values.width);
      region.step(call);
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
  const Call call = call_of(OpType::_ALLGATHER_BASE, shard);
  auto* const to = static_cast<std::byte*>(full.mutable_data_ptr());
  const int64_t bytes = from.count * from.width;
  int64_t at = 0;
  do {
    const int64_t count = std::min(kSlotBytes, bytes - at);
    copy_bytes(region.own_slot(), from.at + at, count);
    region.step(call);
    for (int peer = 0; peer < region.size(); ++peer) copy_bytes(to + peer * bytes + at, region.slot(peer), count);
    region.next_turn();
    at += count;
  } while (at < bytes);
}

void reduce_scatter(Region& region, const at::Tensor& shard, const at::Tensor& full, ReduceOp op) {
  const Values to(shard), from(full);
  const Call call = call_of(OpType::_REDUCE_SCATTER_BASE, shard);
  const int64_t most = kSlotBytes / to.width / region.size();
  int64_t at = 0;
  do {
    const int64_t count = std::min(most, to.count - at);
    for (int peer = 0; peer < region.size(); ++peer)
      copy_bytes(region.own_slot() + peer * count * to.width, from.at + (peer * to.count + at) * to.width,
                 count * to.width);
    region.step(call);
    reduce(region, to, region.rank() * count, count, region.rank() * to.count + at, from.count, to.at + at * to.width,
           op);
    region.next_turn();
    at += count;
  } while (at < to.count);
}

void barrier(Region& region) {
  region.step({static_cast<int32_t>(OpType::BARRIER), 0, 0});
}

}  // namespace trainer::dist::shm
