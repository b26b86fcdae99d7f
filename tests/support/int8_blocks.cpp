#include "tests/support/int8_blocks.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/amax.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/clamp_min.h>
#include <ATen/ops/round.h>

namespace trainer::testing {
namespace {

constexpr int64_t kBlock = 32, kScale = 4;  // values, bytes

at::Tensor encode_int8(const at::Tensor& values, const at::Tensor&) {
  const at::Tensor scale = at::clamp_min(at::amax(values.abs(), {1}, /*keepdim=*/true) / 127, 1e-30);
  const at::Tensor integers = at::round(values / scale).to(at::kChar);
  return at::cat({scale.contiguous().view(at::kByte), integers.view(at::kByte)}, 1);
}

at::Tensor decode_int8(const at::Tensor& blocks, at::ScalarType dtype, const at::Tensor&) {
  const at::Tensor scale = blocks.narrow(1, 0, kScale).contiguous().view(at::kFloat);
  const at::Tensor integers = blocks.narrow(1, kScale, kBlock).contiguous().view(at::kChar);
  return (integers.to(at::kFloat) * scale).to(dtype);
}

}  // namespace

const nn::PackedFormat& int8_blocks() {
  static const nn::PackedFormat format{"int8 in blocks of 32", kBlock, kScale + kBlock, 4, encode_int8, decode_int8};
  return format;
}

}  // namespace trainer::testing
