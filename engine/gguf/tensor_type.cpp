#include "engine/gguf/tensor_type.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include <ATen/ops/empty.h>
#include <c10/util/Half.h>

#include "engine/base/errors.h"

namespace trainer::gguf {
namespace {

constexpr int64_t kBlockBytes = sizeof(c10::Half) + kBlock;

int64_t element_bytes(TensorType type) {
  return type == TensorType::kF32 ? 4 : 2;
}

int64_t count(const std::vector<int64_t>& shape) {
  int64_t product = 1;
  for (const int64_t size : shape) product *= size;
  return product;
}

/// `value` as fp16. Errors: InputError when it doesn't fit.
c10::Half half(float value, float origin, const std::string& name) {
  const c10::Half rounded(value);
  if (std::isfinite(static_cast<float>(rounded))) return rounded;
  throw InputError(
      "{}: the value {} can't be stored: it isn't finite, or beyond the range of fp16 (65504).\n  Export with --type "
      "bf16 or f32.",
      name, origin);
}

void encode_block(const float* values, char* out, const std::string& name) {
  float largest = 0;
  for (int64_t i = 0; i < kBlock && !std::isnan(largest); ++i)
    if (!(std::abs(values[i]) <= largest)) largest = std::abs(values[i]);  // NaN, too
  const float scale = largest / 127.0F;
  const float inverse = std::isfinite(1 / scale) ? 1 / scale : 0;  // 0 for a block of (nearly) zeros
  const c10::Half stored = half(scale, largest, name);
  std::memcpy(out, &stored, sizeof(stored));
  for (int64_t i = 0; i < kBlock; ++i)
    out[sizeof(stored) + i] = static_cast<char>(static_cast<int8_t>(std::round(values[i] * inverse)));
}

at::Tensor quantized(const at::Tensor& values, const std::string& name) {
  const at::Tensor bytes = at::empty({values.numel() / kBlock * kBlockBytes}, at::kByte);
  const float* from = values.const_data_ptr<float>();
  char* to = static_cast<char*>(bytes.mutable_data_ptr());
  for (int64_t block = 0; block < values.numel() / kBlock; ++block)
    encode_block(from + block * kBlock, to + block * kBlockBytes, name);
  return bytes;
}

at::Tensor halved(const at::Tensor& values, const std::string& name) {
  const at::Tensor halves = at::empty(values.sizes(), at::kHalf);
  const float* from = values.const_data_ptr<float>();
  c10::Half* to = halves.mutable_data_ptr<c10::Half>();
  for (int64_t i = 0; i < values.numel(); ++i) to[i] = half(from[i], from[i], name);
  return halves;
}

}  // namespace

TensorType tensor_type_named(const std::string& name) {
  if (name == "f32") return TensorType::kF32;
  if (name == "f16") return TensorType::kF16;
  if (name == "bf16") return TensorType::kBF16;
  if (name == "q8_0") return TensorType::kQ8_0;
  throw ConfigError("--type is {}; expected f32, f16, bf16 or q8_0.", name);
}

uint32_t file_type(TensorType type) {
  switch (type) {
    case TensorType::kF32:
      return 0;
    case TensorType::kF16:
      return 1;
    case TensorType::kQ8_0:
      return 7;
    case TensorType::kBF16:
      return 32;
  }
  throw InternalError("a GGUF type {}", static_cast<uint32_t>(type));
}

int64_t stored_bytes(TensorType type, const std::vector<int64_t>& shape) {
  if (type != TensorType::kQ8_0) return count(shape) * element_bytes(type);
  require(!shape.empty() && shape.back() % kBlock == 0, "Q8_0 rows must be multiples of {}", kBlock);
  return count(shape) / kBlock * kBlockBytes;
}

at::Tensor encode(const at::Tensor& values, TensorType type, const std::string& name) {
  const at::Tensor floats = values.to(at::kFloat).contiguous();
  const at::Tensor encoded = type == TensorType::kF32    ? floats
                             : type == TensorType::kBF16 ? floats.to(at::kBFloat16)
                             : type == TensorType::kF16  ? halved(floats, name)
                                                         : quantized(floats, name);
  return encoded.view(-1).view(at::kByte);
}

}  // namespace trainer::gguf
