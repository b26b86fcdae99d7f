#include "models/nn/kept_elements.h"

#include "models/nn/device/dropout.h"

namespace trainer::nn {

KeptElements kept_elements(const DropoutRule& rule, const Layout& layout, const at::Tensor& x) {
  if (!rule.active()) return {rule, {}, {}};
  if (device_kernels(x) == nullptr || !device::supports_dropout(std::nullopt, x))
    return {rule, dropout_mask(rule, layout, x), {}};
  const device::LayoutDraws draws = device::draws_of(rule, layout, x.device());
  return {rule, draws.sample_index, draws.token};
}

at::Tensor drop_others(const KeptElements& kept, const at::Tensor& x) {
  if (!kept.rule.active()) return x;
  if (!kept.second.defined()) return apply_mask(x, kept.first, kept.rule.scale);
  return device::dropped(*device_kernels(x), x, {kept.first, kept.second, kept.rule});
}

}  // namespace trainer::nn
