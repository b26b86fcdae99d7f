#include "engine/parallel/graph_inputs.h"

#include <bit>

#include <ATen/ops/empty_like.h>

#include "models/nn/device/layout_tensors.h"

namespace trainer::parallel {

BatchShape shape_of(const nn::RowsList& inputs, const nn::Pass& pass) {
  BatchShape shape{pass.training, std::bit_cast<int64_t>(pass.seed), std::bit_cast<int64_t>(pass.label_smoothing)};
  for (const nn::Rows& rows : inputs) {
    shape.push_back(rows.x.defined() ? rows.x.numel() : -1);
    if (rows.layout == nullptr) continue;
    shape.push_back(rows.layout->samples());
    for (const nn::Span& span : rows.layout->spans) shape.push_back(span.length);
  }
  return shape;
}

GraphInputs::GraphInputs(const nn::RowsList& shape, at::Device device) : device_(device) {
  for (const nn::Rows& rows : shape)
    rows_.push_back({rows.x.defined() ? at::empty_like(rows.x, at::TensorOptions(device)) : at::Tensor(),
                     rows.layout ? nn::device::shape_of(*rows.layout) : nullptr});
}

void GraphInputs::set(const nn::RowsList& inputs) {
  for (size_t i = 0; i < rows_.size(); ++i) {
    const nn::Rows &to = rows_[i], &from = inputs[i];
    if (to.layout) nn::device::set_samples(*to.layout, *from.layout, device_);
    if (!to.x.defined()) continue;
    const at::Tensor values = nn::device::host_memory(from.x.sizes(), from.x.scalar_type(), device_);
    values.copy_(from.x);
    to.x.copy_(values, /*non_blocking=*/true);
  }
}

}  // namespace trainer::parallel
