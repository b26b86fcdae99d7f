// Writes GGUF files, one tensor at a time.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <ATen/core/Tensor.h>

#include "engine/base/byte_sink.h"
#include "engine/gguf/tensor_type.h"

namespace trainer::gguf {

/// A value of a file's metadata.
using Value = std::variant<uint32_t, int32_t, float, bool, std::string, std::vector<uint8_t>, std::vector<int32_t>,
                           std::vector<float>, std::vector<std::string>>;

/// What a file says of its model, in order; keys are unique.
using Metadata = std::vector<std::pair<std::string, Value>>;

/// A tensor to be written; the shape in C order (GGUF lists the sizes in reverse).
struct TensorSpec {
  std::string name;
  TensorType type = TensorType::kF32;
  std::vector<int64_t> shape;
};

/// Writes a GGUF file (version 3, little-endian) without holding more than one tensor: all are declared first, then
/// written in the declared order. The file appears at once and grows; the caller publishes it under its final name. A
/// writer that is destroyed before `finish` removes the file. Source: ggml/docs/gguf.md. Errors: MachineError when the
/// file can't be written; InternalError for tensors other than declared.
class GgufWriter {
 public:
  GgufWriter(const std::filesystem::path& path, const Metadata& metadata, std::vector<TensorSpec> tensors);

  /// Writes the next tensor, of any float dtype. Errors: those of encode().
  void write(const at::Tensor& values);
  /// The tensor that comes next; null: all are written.
  const TensorSpec* next() const { return next_ < tensors_.size() ? &tensors_[next_] : nullptr; }
  /// Ends the file after all tensors were written; it is on disk when this returns.
  void finish();

 private:
  void put(std::string_view bytes);
  void pad();

  FileSink sink_;
  std::vector<TensorSpec> tensors_;
  size_t next_ = 0;
  int64_t written_ = 0;
};

}  // namespace trainer::gguf
