// A file by which machines see that they have one output folder.
#pragma once

#include <filesystem>
#include <string>

namespace trainer::launch {

/// It is there as long as this object.
class FolderSign {
 public:
  /// Errors: MachineError.
  explicit FolderSign(const std::filesystem::path& folder);
  ~FolderSign();
  FolderSign(const FolderSign&) = delete;
  FolderSign& operator=(const FolderSign&) = delete;

  const std::string& name() const { return name_; }
  const std::string& content() const { return content_; }

 private:
  std::filesystem::path folder_;
  std::string name_, content_;
};

/// "" when `folder` has that file, or why not. Waits for a second: a file system over a network may show a new file
/// late, and where it takes longer the run does without.
std::string why_unseen(const std::filesystem::path& folder, const std::string& name, const std::string& content);

}  // namespace trainer::launch
