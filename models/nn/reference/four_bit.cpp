#include "models/nn/reference/four_bit.h"

#include <algorithm>

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/index_select.h>

#include "models/nn/device/layout_tensors.h"

namespace trainer::nn::reference {
namespace {

constexpr int64_t kBlocksAtATime = 1 << 18;

/// fp32 [rows, width] on `device`, filled by f(address) on the host.
template <class F>
at::Tensor table(int64_t rows, int64_t width, at::Device device, const F& fill) {
  const at::Tensor values = device::host_memory({rows, width}, at::kFloat, device);
  if (!values.is_meta()) fill(values.data_ptr<float>());
  return device::sent(values, device);
}

/// The two values of each byte.
at::Tensor pairs(const FourBitCode& code, at::Device device) {
  return table(256, 2, device, [&](float* to) {
    for (int byte = 0; byte < 256; ++byte) {
      to[2 * byte] = code.values[byte >> 4];
      to[2 * byte + 1] = code.values[byte & 15];
    }
  });
}

}  // namespace

at::Tensor four_bit_scales(const at::Tensor& blocks, const at::Tensor& shared, const std::vector<float>& map) {
  const at::Tensor stored = blocks.narrow(1, 0, blocks.size(1) - kFourBitBytes).contiguous();
  if (!shared.defined()) return stored.view(at::kFloat).view(-1);
  const at::Tensor scale_of = table(256, 1, blocks.device(), [&](float* to) { std::copy(map.begin(), map.end(), to); });
  return scale_of.view(-1)
      .index_select(0, stored.view(-1).to(at::kInt))
      .mul_(shared.select(1, 0))
      .add_(shared.select(1, 1));
}

void decode_four_bits(const at::Tensor& blocks, const at::Tensor& scales, const FourBitCode& code,
                      const at::Tensor& out) {
  const at::Tensor values = pairs(code, blocks.device());
  for (int64_t begin = 0; begin < blocks.size(0); begin += kBlocksAtATime) {
    const int64_t count = std::min(kBlocksAtATime, blocks.size(0) - begin);
    const at::Tensor codes = blocks.narrow(0, begin, count).narrow(1, blocks.size(1) - kFourBitBytes, kFourBitBytes);
    out.narrow(0, begin, count)
        .copy_(values.index_select(0, codes.to(at::kInt).view(-1))
                   .view({count, kFourBitBlock})
                   .mul_(scales.narrow(0, begin, count).unsqueeze(1)));
  }
}

}  // namespace trainer::nn::reference
