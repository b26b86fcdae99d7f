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

#include "engine/base/mapped_file.h"
#include "engine/base/regular_file.h"
#include "engine/tensorfile/header.h"

namespace trainer::tensorfile {

/// A safetensors file, checked against every rule of the format when it is opened. Data is read only on request.
/// Members can be called from several threads. Errors: InputError for a file that is missing, unreadable, invalid, or
/// changed since it was opened. (If another process writes to the file while a tensor of `tensor()` is in use, its
/// values change, and if it truncates the file, the kernel ends this process with SIGBUS; `read()` doesn't have this
/// weakness.)
/// Source: https://github.com/huggingface/safetensors (format), little-endian machines only.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return file_->path(); }
  /// To see whether it has changed while a tensor of `tensor()` is in use.
  const std::shared_ptr<const RegularFile>& file() const { return file_; }
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
  std::string read_header(int64_t& data_begin);
  void read_bytes(char* out, int64_t offset, int64_t count) const;
  at::ScalarType scalar_type(const TensorInfo& info) const;
  void check_values(const TensorInfo& info, std::string_view bytes) const;

  std::shared_ptr<const RegularFile> file_;
  Header header_;
  std::unordered_map<std::string_view, const TensorInfo*> by_name_;  // into header_
  std::shared_ptr<const MappedFile> mapping_;
};

}  // namespace trainer::tensorfile
