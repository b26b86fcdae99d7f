// The cgroups that limit this process.
#pragma once

#include <string>
#include <vector>

namespace trainer {

/// The folders of this process's cgroup and of all above it, whose limits hold too; they may not exist. `controller`:
/// in version 1, whose groups differ by controller; "": in version 2. In a container, its own group is at the top,
/// where version 2 is always looked for. `root` replaces / in tests.
std::vector<std::string> cgroup_folders(const std::string& root, const std::string& controller = "");

}  // namespace trainer
