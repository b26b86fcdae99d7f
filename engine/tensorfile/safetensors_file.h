// Reads safetensors files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <ATen/core/Tensor.h>

#include "engine/base/file_descriptor.h"
#include "engine/tensorfile/header.h"

namespace trainer::tensorfile {

/// A safetensors file, checked against every rule of the format when it is opened. Data is read only on request.
/// Members can be called from several threads. Errors: InputError for a file that is missing, unreadable, invalid, or
/// changed since it was opened. (If another process truncates the file while a tensor of `tensor()` is in use, the
/// kernel ends this process with SIGBUS; `read()` doesn't have this weakness.)
/// Source: https://github.com/huggingface/safetensors (format), little-endian machines only.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }
  const Metadata& metadata() const { return header_.metadata; }
  /// All tensors in file order, the fastest order to read them. Offsets count from the start of the file.
  const std::vector<TensorInfo>& tensors() const { return header_.tensors; }
  std::vector<std::string> names() const;

  /// Null when there is no such tensor.
  const TensorInfo* find(const std::string& name) const;
  /// Errors: InputError with the nearest name when there is no such tensor.
  const TensorInfo& info(const std::string& name) const;

  /// The tensor in its shape without a copy: its memory is the file, which stays mapped as long as the tensor lives.
  /// Writing to it ends the process. (A tensor that isn't aligned to its element size is copied.) Errors: InputError
  /// for a dtype that torch doesn't have.
  at::Tensor tensor(const std::string& name) const;

  /// A copy of elements [begin, end) of the flat tensor (C order), 1D.
  at::Tensor read(const std::string& name, int64_t begin, int64_t end) const;
  /// Fills the contiguous `out`, of the file's dtype, with the elements of the flat tensor starting at `begin`.
  void read_into(const std::string& name, int64_t begin, const at::Tensor& out) const;

 private:
  class Mapping;

  std::string read_header(int64_t& data_begin);
  void read_bytes(char* out, int64_t offset, int64_t count) const;
  void check_size() const;
  at::ScalarType scalar_type(const TensorInfo& info) const;
  void check_values(const TensorInfo& info, std::string_view bytes) const;

  std::filesystem::path path_;
  FileDescriptor file_;
  int64_t size_ = 0;  // of the file when it was opened
  Header header_;
  std::unordered_map<std::string_view, const TensorInfo*> by_name_;  // into header_
  std::shared_ptr<const Mapping> mapping_;
};

}  // namespace trainer::tensorfile
