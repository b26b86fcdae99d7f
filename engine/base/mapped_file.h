// Memory-mapped files.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string_view>

#include "engine/base/regular_file.h"

namespace trainer {

/// The bytes of a regular file, read on access. If the file shrinks meanwhile, or can't be read, an access ends the
/// process with SIGBUS.
class MappedFile {
 public:
  /// Errors: InputError when it is missing, unreadable or not a regular file; MachineError when it can't be mapped.
  explicit MappedFile(const std::filesystem::path& path) : MappedFile(RegularFile(path)) {}
  explicit MappedFile(const RegularFile& file);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&&) = delete;

  std::string_view bytes() const { return {static_cast<const char*>(data_), size_}; }
  /// Reads these of its bytes() now, in pages as large as the system has for files, as far as memory is free. False if
  /// they can't be read.
  static bool read_now(std::string_view bytes);

 private:
  void* data_ = nullptr;  // null: the file is empty
  size_t size_ = 0;
};

}  // namespace trainer
