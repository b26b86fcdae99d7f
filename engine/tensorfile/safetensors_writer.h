// Writes safetensors files, one tensor at a time.
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

/// A tensor to be written.
struct TensorSpec {
  std::string name;
  at::ScalarType dtype;
  std::vector<int64_t> shape;
};

/// Writes a safetensors file, byte for byte as the safetensors package does, without holding more than one tensor: the
/// tensors are declared first, then written in `order()`. The file appears at once and grows; the caller publishes it
/// under its final name. A writer that is destroyed before `finish` removes the file. Errors: MachineError when the
/// file can't be written; InternalError for tensors other than declared.
class SafetensorsWriter {
 public:
  /// Called with all bytes in order as they are written.
  using Tap = std::function<void(std::string_view bytes)>;

  /// `metadata` is written in addition to {"format": "pt"}.
  SafetensorsWriter(const std::filesystem::path& path, const std::vector<TensorSpec>& tensors, Metadata metadata = {},
                    Tap tap = {});
  /// Writes to `sink` instead of a file.
  SafetensorsWriter(std::unique_ptr<ByteSink> sink, const std::vector<TensorSpec>& tensors, Metadata metadata = {},
                    Tap tap = {});

  /// All tensors in the order in which they must be written.
  const std::vector<TensorInfo>& order() const { return header_.tensors; }

  /// The size of the whole file.
  int64_t bytes() const;

  /// Writes the next tensor; `name` must be its name.
  void write(const std::string& name, const at::Tensor& tensor);

  /// Ends the file after all tensors were written; it is on disk when this returns.
  void finish();

 private:
  void put(std::string_view bytes);

  std::unique_ptr<ByteSink> sink_;
  Header header_;
  Tap tap_;
  size_t next_ = 0;  // into order()
};

}  // namespace trainer::tensorfile
