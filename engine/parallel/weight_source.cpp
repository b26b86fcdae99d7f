#include "engine/parallel/weight_source.h"

#include <ATen/ops/empty.h>

namespace trainer::parallel {

void WeightSource::read_values(const nn::Parameter& parameter, int64_t begin, int64_t end,
                               const at::Tensor& out) const {
  for (const nn::Run& run : nn::runs_of(parameter.part, parameter.whole_shape(), begin, end))
    read(parameter, run.whole, run.whole + run.count, out.narrow(0, run.part - begin, run.count));
}

void WeightSource::read_part(const nn::Parameter& parameter, int64_t begin, int64_t end, const at::Tensor& out) const {
  const nn::Storage& storage = parameter.storage;
  if (!storage.packed) return read_values(parameter, begin, end, out);
  constexpr int64_t kBlocks = 1 << 14;
  const int64_t most = kBlocks * storage.packed->block;
  for (int64_t at = begin; at < end; at += most) {
    const int64_t count = std::min(most, end - at);
    const at::Tensor values = at::empty({count}, out.options().dtype(at::kFloat));
    read_values(parameter, at, at + count, values);
    out.narrow(0, storage.elements(at - begin), storage.elements(count)).copy_(storage.encode(values));
  }
}

}  // namespace trainer::parallel
