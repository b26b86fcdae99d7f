#include "engine/dist/shared_sum.h"

#include <algorithm>

#include <ATen/TensorOperators.h>
#include <ATen/ops/add.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include "engine/dist/gloo_order.h"

namespace trainer::dist {
namespace {

/// Writes the sum of columns [begin, begin + to.numel()) of `rows` [R, n], which the ranks reduce together, `to` memory
/// that isn't a part of them (Note [Gloo's order]).
void add_up(const at::Tensor& rows, int64_t begin, const at::Tensor& to) {
  const int64_t ranks = rows.size(0), count = to.numel();
  const int64_t part = gloo_part(rows.size(1), static_cast<int64_t>(rows.element_size()), static_cast<int>(ranks));
  for (int64_t done = 0, length = 0; done < count; done += length, begin += length) {
    const int64_t number = begin / part;
    length = std::min(count - done, (number + 1) * part - begin);
    const auto of = [&](int64_t rank) { return rows.select(0, (rank + 2 * ranks) % ranks).narrow(0, begin, length); };
    at::Tensor result = to.narrow(0, done, length);
    at::add_out(result, of(number - 1), of(number - 2));
    for (int64_t rank = number - 3; rank >= number - ranks; --rank) result.add_(of(rank));
  }
}

}  // namespace

void sum_shared(Comm& comm, const at::Tensor& rows, const at::Tensor& to, bool add) {
  comm.barrier();
  const at::Tensor sum = add ? at::empty_like(to) : to;
  add_up(rows, comm.rank() * to.numel(), sum);
  if (add) to.add_(sum);
}

void sum_shared_everywhere(Comm& comm, const at::Tensor& rows, const std::vector<int64_t>& sizes) {
  constexpr int64_t kBlock = 1 << 17;  // stays in the cache until it is copied
  comm.barrier();
  const int64_t ranks = rows.size(0), all = rows.size(1);
  const int64_t first = all * comm.rank() / ranks, last = all * (comm.rank() + 1) / ranks;
  const at::Tensor block = at::empty({kBlock}, rows.options());
  int64_t at = 0;  // where a tensor begins
  for (const int64_t size : sizes) {
    const at::Tensor tensor = rows.narrow(1, at, size);
    for (int64_t begin = std::max(first - at, int64_t{0}), end = std::min(last - at, size); begin < end;
         begin += kBlock) {
      const int64_t length = std::min(kBlock, end - begin);
      const at::Tensor sum = block.narrow(0, 0, length);
      add_up(tensor, begin, sum);
      tensor.narrow(1, begin, length).copy_(sum.expand({ranks, length}));
    }
    at += size;
  }
  comm.barrier();
}

}  // namespace trainer::dist
