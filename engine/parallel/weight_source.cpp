#include "engine/parallel/weight_source.h"

#include <algorithm>

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>

namespace trainer::parallel {
namespace {

constexpr int64_t kBlocks = 1 << 14;  // read at a time

/// fp32 where values are read to be packed: on the CPU, or nowhere in a dry run.
at::TensorOptions host_of(at::Device device) {
  return at::TensorOptions(device.is_meta() ? device : at::Device(at::kCPU)).dtype(at::kFloat);
}

}  // namespace

nn::Storage WeightSource::with_groups(nn::Storage storage, const nn::Parameter& parameter, at::Device device) const {
  if (!storage.packed || storage.packed->group == 0) return storage;
  const nn::PackedFormat& format = *storage.packed;
  int64_t all = 1;
  for (const int64_t size : parameter.whole_shape()) all *= size;
  at::Tensor shared;
  if (device.is_meta()) {
    shared = at::empty({format.groups_of(all), 2}, host_of(device));
  } else {
    const at::Tensor summaries = at::empty({all / format.block}, at::kFloat);
    const at::Tensor turned = storage.transposed ? read_transposed(parameter, {}) : at::Tensor();
    for (int64_t at = 0; at < all; at += kBlocks * format.block) {
      const int64_t count = std::min(kBlocks * format.block, all - at);
      const at::Tensor values = turned.defined() ? turned.narrow(0, at, count) : at::empty({count}, at::kFloat);
      if (!turned.defined()) read(parameter, at, at + count, values);
      summaries.narrow(0, at / format.block, count / format.block)
          .copy_(format.summary(values.view({-1, format.block})));
    }
    shared = format.share(summaries).to(device);
  }
  storage.groups = std::make_shared<nn::BlockGroups>(
      nn::BlockGroups{shared, storage.order(parameter.part), storage.order(parameter.whole_shape())});
  return storage;
}

void WeightSource::read_values(const nn::Parameter& parameter, int64_t begin, int64_t end,
                               const at::Tensor& out) const {
  for (const nn::Run& run : nn::runs_of(parameter.part, parameter.whole_shape(), begin, end))
    read(parameter, run.whole, run.whole + run.count, out.narrow(0, run.part - begin, run.count));
}

at::Tensor WeightSource::read_transposed(const nn::Parameter& parameter, const nn::Part& part) const {
  const at::Tensor whole = at::empty(parameter.whole_shape(), at::kFloat);
  read(parameter, 0, whole.numel(), whole.view(-1));
  std::vector<at::Tensor> ranges;
  for (const nn::Range& range : part.ranges)
    ranges.push_back(whole.narrow(part.dim, range.begin, range.end - range.begin));
  return (part.whole() ? whole : at::cat(ranges, part.dim)).t().contiguous().view(-1);
}

void WeightSource::read_part(const nn::Parameter& parameter, int64_t begin, int64_t end, const at::Tensor& out) const {
  const nn::Storage& storage = parameter.storage;
  if (!storage.packed) return read_values(parameter, begin, end, out);
  const int64_t most = kBlocks * storage.packed->block;
  const bool turns = storage.transposed && !out.is_meta();
  const at::Tensor turned = turns ? read_transposed(parameter, parameter.part) : at::Tensor();
  for (int64_t at = begin; at < end; at += most) {
    const int64_t count = std::min(most, end - at);
    const at::Tensor values = turns ? turned.narrow(0, at, count) : at::empty({count}, host_of(out.device()));
    if (!turns) read_values(parameter, at, at + count, values);
    out.narrow(0, storage.elements(at - begin), storage.elements(count)).copy_(storage.encode(values, at));
  }
}

}  // namespace trainer::parallel
