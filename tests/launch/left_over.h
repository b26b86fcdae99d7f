// Processes that a test's launchers have left.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "engine/base/files.h"

namespace trainer::launch {

/// A zombie counts as gone.
inline bool is_running(pid_t pid) {
  std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(stat, text);
  const size_t name_end = text.rfind(')');
  return name_end != std::string::npos && text[name_end + 2] != 'Z';
}

/// Whether any process whose id is noted in `notes` still runs. Waits briefly, as the kernel may need a moment to end
/// it.
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
