#include "engine/dist/shared_sum.h"

#include <algorithm>

#include <ATen/TensorOperators.h>
#include <ATen/ops/add.h>
#include <ATen/ops/empty_like.h>

#include "engine/dist/gloo_order.h"

namespace trainer::dist {

void sum_shared(Comm& comm, const at::Tensor& rows, const at::Tensor& to, bool add) {
  comm.barrier();
  const int ranks = comm.size();
  const int64_t count = to.numel(), first = comm.rank() * count;
  const int64_t part = gloo_part(count * ranks, static_cast<int64_t>(rows.element_size()), ranks);
  at::Tensor sum = add ? at::empty_like(to) : to;
  for (int64_t done = 0, length = 0; done < count; done += length) {
    const int64_t begin = first + done, number = begin / part;
    length = std::min(count - done, (number + 1) * part - begin);
    const auto of = [&](int64_t rank) { return rows.select(0, (rank + 2 * ranks) % ranks).narrow(0, begin, length); };
    at::Tensor result = sum.narrow(0, done, length);
    at::add_out(result, of(number - 1), of(number - 2));
    for (int64_t rank = number - 3; rank >= number - ranks; --rank) result.add_(of(rank));
  }
  if (add) to.add_(sum);
}

}  // namespace trainer::dist
