// A file that grows during training and outlasts a full disk.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "engine/base/file_descriptor.h"

namespace trainer::metrics {

/// Appends records to a file. While the disk is full (or a quota or size limit is reached), records wait in memory, and
/// once kMostWaiting bytes wait, further ones are dropped: training continues. Reports the first record that doesn't
/// fit, and the first that does again, with the number of dropped records.
class AppendedFile {
 public:
  /// Opens `path` with `flags` in addition to those for appending. Errors: MachineError.
  AppendedFile(std::filesystem::path path, int flags);
  AppendedFile(AppendedFile&&) = default;
  /// Tries once more to write what waits.
  ~AppendedFile();

  /// Appends one record, whole or not at all. Errors: MachineError, for anything but a full disk.
  void write(std::string_view record);

  static constexpr size_t kMostWaiting = size_t{4} << 20;

 private:
  /// Writes what waits; 0, or the errno of a full disk.
  int catch_up();

  std::filesystem::path path_;
  FileDescriptor file_;
  std::string waiting_;  // whole records, except that the first may have been written in part
  int64_t dropped_ = 0;
  bool is_full_ = false;
};

}  // namespace trainer::metrics
