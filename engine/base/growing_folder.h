// A folder that appears when it is complete.
#pragma once

#include <filesystem>

namespace trainer {

/// A hidden folder next to `output`, which it becomes; removed if it isn't published.
class GrowingFolder {
 public:
  /// Errors: ConfigError when `output` exists and isn't an empty folder; MachineError.
  explicit GrowingFolder(const std::filesystem::path& output);
  ~GrowingFolder();
  GrowingFolder(const GrowingFolder&) = delete;
  GrowingFolder& operator=(const GrowingFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  /// Errors: MachineError.
  void publish();

 private:
  std::filesystem::path output_, path_;
};

}  // namespace trainer
