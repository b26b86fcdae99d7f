// A file that shows machines whether they share one output folder.
#pragma once

#include <filesystem>
#include <string>

namespace trainer::launch {

/// The file exists as long as this object.
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
  void remove();

  std::filesystem::path folder_;
  std::string name_, content_;
};

/// "" when `folder` has that file, else why not. Waits up to one second: a network file system may show a new file
/// late; if it takes longer, the folder counts as not shared.
std::string why_unseen(const std::filesystem::path& folder, const std::string& name, const std::string& content);

}  // namespace trainer::launch
