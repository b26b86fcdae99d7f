// Memory-mapped files.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string_view>

namespace trainer {

/// The bytes of a regular file, read on access. The file must not shrink meanwhile.
class MappedFile {
 public:
  /// Errors: InputError when it is missing, unreadable or not a regular file; MachineError when it can't be mapped.
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&&) = delete;

  std::string_view bytes() const { return {static_cast<const char*>(data_), size_}; }

 private:
  void* data_ = nullptr;  // null: the file is empty
  size_t size_ = 0;
};

}  // namespace trainer
