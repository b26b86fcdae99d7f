#include "engine/base/cgroups.h"

#include <fstream>

namespace trainer {
namespace {

/// This process's group; "" if it has none, or is at the top. Lines of the file are "0::GROUP" (version 2) and
/// "NUMBER:CONTROLLERS:GROUP" (version 1).
std::string own_group(const std::string& root, const std::string& controller) {
  std::ifstream lines(root + "/proc/self/cgroup");
  for (std::string line; std::getline(lines, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    if (controllers.find("," + controller + ",") != std::string::npos) return line.substr(second + 1);
  }
  return "";
}

}  // namespace

std::vector<std::string> cgroup_folders(const std::string& root, const std::string& controller) {
  std::vector<std::string> mounts{"", "/unified"}, folders;
  if (!controller.empty()) mounts = {"/" + controller, "/cpu,cpuacct"};  // these two are mounted together
  for (const std::string& mount : mounts) {
    std::string group = own_group(root, controller);
    for (;;) {
      folders.push_back(root + "/sys/fs/cgroup" + mount + group);
      const size_t slash = group.rfind('/');
      if (slash == std::string::npos) break;
      group.resize(slash);
    }
  }
  return folders;
}

}  // namespace trainer
