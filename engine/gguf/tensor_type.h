// The types in which a GGUF file stores tensors.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

namespace trainer::gguf {

/// The numbers are ggml's. Q8_0 stores 32 values of a row in 34 bytes: an fp16 scale and 32 signed bytes.
enum class TensorType : uint32_t { kF32 = 0, kF16 = 1, kQ8_0 = 8, kBF16 = 30 };

constexpr int64_t kBlock = 32;  // values of a row that share a scale in Q8_0

/// The type called "f32", "f16", "bf16" or "q8_0". Errors: ConfigError.
TensorType tensor_type_named(const std::string& name);

/// The value of general.file_type for a file whose matrices have this type.
uint32_t file_type(TensorType type);

/// Bytes of a tensor of `shape`, C order.
int64_t stored_bytes(TensorType type, const std::vector<int64_t>& shape);

/// The bytes of `values`, of any float dtype, as the file stores them: uint8 [stored_bytes]. Rounds to nearest even;
/// Q8_0 as ggml's reference (the scale is a block's largest magnitude / 127; halves are rounded away from zero).
/// `name` is for messages. Errors: InputError for a value beyond fp16's range, if the type stores fp16.
at::Tensor encode(const at::Tensor& values, TensorType type, const std::string& name);

}  // namespace trainer::gguf
