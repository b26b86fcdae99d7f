// A folder that is removed when its owner is destroyed.
#pragma once

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "engine/base/files.h"

namespace trainer {

class TemporaryFolder {
 public:
  /// Its name begins with `name`. Errors: MachineError.
  explicit TemporaryFolder(const std::string& name) {
    std::string path = (std::filesystem::temp_directory_path() / (name + "-XXXXXX")).string();
    if (mkdtemp(path.data()) == nullptr) throw machine_error("create", path, errno);
    path_ = path;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    if (!kept_) std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }
  /// The folder outlives this object.
  void keep() { kept_ = true; }

 private:
  std::filesystem::path path_;
  bool kept_ = false;
};

}  // namespace trainer
