#include "models/nn/device/four_bit.h"

#include <algorithm>

namespace trainer::nn::device {

void decode_four_bits(const DeviceKernels& kernels, const at::Tensor& blocks, const at::Tensor& shared,
                      const std::vector<float>& map, const FourBitCode& code, const at::Tensor& out) {
  FourBitScales scales;
  if (shared.defined()) {
    scales.shared = address_as<float>(shared);
    std::copy(map.begin(), map.end(), scales.map);
  }
  kernels.decode_four_bits(address_as<uint8_t>(blocks), blocks.size(0), code, scales,
                           *element_type(out.scalar_type()), address_in(out), stream_of(kernels, blocks));
}

}  // namespace trainer::nn::device
