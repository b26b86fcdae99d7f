#include "engine/dist/shared_buckets.h"

#include "engine/dist/buckets.h"
#include "engine/dist/phase.h"
#include "engine/dist/shared_memory.h"
#include "engine/dist/shared_sum.h"

namespace trainer::dist {

SharedBuckets::SharedBuckets(const std::vector<at::Tensor>& parameters, Comm& comm, int64_t bucket_bytes)
    : comm_(comm) {
  int64_t total = 0;
  for (const at::Tensor& p : parameters) total += p.numel();
  const at::Tensor memory = shared_floats(comm, comm.size() * total);
  if (!memory.defined()) return;
  rows_ = memory.view({comm.size(), total});
  const at::Tensor mine = rows_.select(0, comm.rank());
  int64_t at = 0;
  for (const std::vector<size_t>& bucket : buckets_of(parameters, bucket_bytes)) {
    const int64_t begin = at;
    for (const size_t i : bucket) {
      const at::Tensor& p = parameters[i];
      p.mutable_grad() = mine.narrow(0, at, p.numel()).view(p.sizes());
      at += p.numel();
    }
    sizes_.push_back(at - begin);
  }
}

void SharedBuckets::sum() {
  const Phase phase("gradients");
  sum_shared_everywhere(comm_, rows_, sizes_);
}

}  // namespace trainer::dist
