#include "engine/parallel/weight_source.h"

#include <algorithm>

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
    const Reader values = in_order(storage, parameter, {}, device);
    for (int64_t at = 0; at < all; at += kBlocks * format.block) {
      const int64_t count = std::min(kBlocks * format.block, all - at);
      summaries.narrow(0, at / format.block, count / format.block)
          .copy_(format.summary(values(at, count).view({-1, format.block})));
    }
    shared = format.share(summaries).to(device);
  }
  storage.groups = std::make_shared<nn::BlockGroups>(
      nn::BlockGroups{shared, storage.order(parameter.part), storage.order(parameter.whole_shape())});
  return storage;
}

void WeightSource::read_slice(const nn::Parameter& parameter, const nn::Part& part, int64_t begin,
                              const at::Tensor& out) const {
  for (const nn::Run& run : nn::runs_of(part, parameter.whole_shape(), begin, begin + out.numel()))
    read(parameter, run.whole, run.whole + run.count, out.narrow(0, run.part - begin, run.count));
}

WeightSource::Reader WeightSource::in_order(const nn::Storage& storage, const nn::Parameter& parameter,
                                            const nn::Part& part, at::Device device) const {
  if (storage.transposed && !device.is_meta()) {
    const at::Tensor slice = at::empty(nn::part_shape(part, parameter.whole_shape()), at::kFloat);
    read_slice(parameter, part, 0, slice.view(-1));
    const at::Tensor turned = slice.t().contiguous().view(-1);
    return [turned](int64_t begin, int64_t count) { return turned.narrow(0, begin, count); };
  }
  return [&parameter, part, device, this](int64_t begin, int64_t count) {
    const at::Tensor values = at::empty({count}, host_of(device));
    read_slice(parameter, part, begin, values);
    return values;
  };
}

void WeightSource::read_part(const nn::Parameter& parameter, int64_t begin, int64_t end, const at::Tensor& out) const {
  const nn::Storage& storage = parameter.storage;
  if (!storage.packed) return read_slice(parameter, parameter.part, begin, out);
  const int64_t most = kBlocks * storage.packed->block;
  const Reader values = in_order(storage, parameter, parameter.part, out.device());
  for (int64_t at = begin; at < end; at += most) {
    const int64_t count = std::min(most, end - at);
    out.narrow(0, storage.elements(at - begin), storage.elements(count)).copy_(storage.encode(values(at, count), at));
  }
}

}  // namespace trainer::parallel
