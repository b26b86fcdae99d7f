// Files that are read while other programs may write to them.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <filesystem>

#include "engine/base/file_descriptor.h"

namespace trainer {

/// A regular file, open for reading.
class RegularFile {
 public:
  /// Errors: InputError when it is missing, unreadable or not a regular file.
  explicit RegularFile(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }
  int descriptor() const { return file_.get(); }
  /// In bytes, when it was opened.
  int64_t size() const { return opened_.st_size; }
  /// Whether the file system is known to be this machine's own. On another one, reading may fail at any time.
  bool is_local() const { return local_; }
  /// Errors: InputError when its size has changed since it was opened or, on a local file system, something has written
  /// to it. (Elsewhere, its time of modification may be that of a cache.)
  void check_unchanged() const;

 private:
  std::filesystem::path path_;
  FileDescriptor file_;
  struct stat opened_ {};
  bool local_ = false;
};

}  // namespace trainer
