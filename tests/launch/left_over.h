// Processes that a test's launchers have left.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "engine/base/files.h"

namespace trainer::launch {

/// A killed process that nobody has waited for yet counts as gone.
inline bool is_running(pid_t pid) {
  std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(stat, text);
  const size_t name_end = text.rfind(')');
  return name_end != std::string::npos && text[name_end + 2] != 'Z';
}

/// Whether any process that has left a note of its number in `notes` still runs. The kernel may need a moment to end
/// one.
inline bool anyone_left(const std::filesystem::path& notes) {
  for (const auto& entry : std::filesystem::directory_iterator(notes)) {
    const std::string name = entry.path().filename();
    if (!name.starts_with("pid") && !name.starts_with("child")) continue;
    for (int i = 0; is_running(std::stoi(read_file(entry.path()))); ++i, usleep(1000)) {
      if (i == 5000) return true;
    }
  }
  return false;
}

}  // namespace trainer::launch
