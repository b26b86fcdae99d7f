// Writing safetensors files, one tensor at a time.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <ATen/core/Tensor.h>

#include "engine/base/byte_sink.h"
#include "engine/tensorfile/header.h"

namespace trainer::tensorfile {

/// A tensor that is going to be written.
struct TensorSpec {
  std::string name;
  at::ScalarType dtype;
  std::vector<int64_t> shape;
};

/// Writes a safetensors file, byte for byte as the safetensors package would, without ever holding more than one
/// tensor: what will come is declared first, then written in `order()`. The file appears at once and grows; publishing
/// it under its final name is the caller's. A writer that is destroyed before `finish` removes the file. Errors:
/// MachineError when the disk or the folder doesn't play along; InternalError for tensors other than declared.
class SafetensorsWriter {
 public:
  /// Shown all bytes in their order as they are written.
  using Tap = std::function<void(std::string_view bytes)>;

  /// `metadata` is written besides {"format": "pt"}.
  SafetensorsWriter(const std::filesystem::path& path, const std::vector<TensorSpec>& tensors, Metadata metadata = {},
                    Tap tap = {});
  /// Writes to somewhere else.
  SafetensorsWriter(std::unique_ptr<ByteSink> sink, const std::vector<TensorSpec>& tensors, Metadata metadata = {},
                    Tap tap = {});

  /// All tensors in the order in which they must be written.
  const std::vector<TensorInfo>& order() const { return header_.tensors; }

  /// Of the whole file.
  int64_t bytes() const;

  /// Writes the next tensor; `name` must be its name.
  void write(const std::string& name, const at::Tensor& tensor);

  /// Ends the file, when all tensors are written; it is on disk when this returns.
  void finish();

 private:
  void put(std::string_view bytes);

  std::unique_ptr<ByteSink> sink_;
  Header header_;
  Tap tap_;
  size_t next_ = 0;  // into order()
};

}  // namespace trainer::tensorfile
