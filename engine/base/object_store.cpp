#include "engine/base/object_store.h"

#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include <fmt/format.h>

namespace trainer {
namespace {

/// These programs rename a folder by renaming its files, in any order, or don't.
constexpr const char* kPrograms[] = {"rclone", "s3fs", "gcsfuse", "blobfuse", "blobfuse2", "goofys", "mountpoint-s3"};

}  // namespace

bool is_object_store(std::istream& mounts, const std::string& device) {
  for (std::string line; std::getline(mounts, line);) {
    // 36 35 0:59 ROOT PLACE OPTIONS [MORE ...] - TYPE SOURCE OPTIONS
    std::istringstream words(line);
    std::string id, parent, number, word, type, source;
    words >> id >> parent >> number;
    if (number != device) continue;
    while (words >> word && word != "-") continue;
    words >> type >> source;
    const std::string program = type == "fuse" ? source : type.starts_with("fuse.") ? type.substr(5) : "";
    if (std::find(std::begin(kPrograms), std::end(kPrograms), program) != std::end(kPrograms)) return true;
  }
  return false;
}

bool is_in_object_store(const std::filesystem::path& path) {
  struct stat about {};
  if (stat(path.c_str(), &about) != 0) return false;
  std::ifstream mounts("/proc/self/mountinfo");
  return is_object_store(mounts, fmt::format("{}:{}", major(about.st_dev), minor(about.st_dev)));
}

}  // namespace trainer
