// A folder for fuzzers that need files by name: in memory if possible.
#pragma once

#include <filesystem>
#include <fstream>
#include <string_view>

#include <unistd.h>

namespace trainer {

/// Initially empty; the same folder for the whole process.
inline const std::filesystem::path& fuzz_folder() {
  static const std::filesystem::path folder = [] {
    const std::filesystem::path base = std::filesystem::exists("/dev/shm") ? "/dev/shm" : "/tmp";
    const auto made = base / ("trainer-fuzz-" + std::to_string(getpid()));
    std::filesystem::create_directories(made);
    std::atexit([] { std::filesystem::remove_all(fuzz_folder()); });
    return made;
  }();
  return folder;
}

inline void write_fuzz_file(const char* name, std::string_view content) {
  std::ofstream(fuzz_folder() / name, std::ios::binary) << content;
}

}  // namespace trainer
