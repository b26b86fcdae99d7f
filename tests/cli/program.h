// The program `trainer` in a temporary folder.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace trainer {

namespace fs = std::filesystem;

struct Outcome {
  int code;
  std::string out, err;
};

inline std::string read_all(const fs::path& path) {
  std::ifstream in(path);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

class Program : public ::testing::Test {
 protected:
  /// Creates the folder next to the program, so that it can be hard-linked into the folder.
  Program()
      : folder_(fs::path(TRAINER).parent_path() /
                fmt::format("cli-{}-{}", getpid(), ::testing::UnitTest::GetInstance()->current_test_info()->name())) {
    fs::create_directories(folder_);
    fs::create_hard_link(TRAINER, folder_ / "trainer");
    setenv("HOME", folder_.c_str(), 1);
    for (const char* name :
         {"TRAINER_CONFIG", "HF_HOME", "XDG_CACHE_HOME", "ACCELERATE_MIXED_PRECISION", "ACCELERATE_USE_CPU"}) {
      unsetenv(name);
    }
  }
  ~Program() override { fs::remove_all(folder_); }

  std::string write(const std::string& name, const std::string& text) {
    fs::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name) << text;
    return (folder_ / name).string();
  }

  void write_worker(const std::string& script) { write_program("trainer-worker", script); }
  void write_prepare(const std::string& script) { write_program("trainer-prepare", script); }
  void write_program(const std::string& name, const std::string& script) {
    fs::permissions(write(name, "#!/bin/sh\n" + script), fs::perms::owner_all);
  }

  Outcome run(const std::string& arguments, const std::string& input = "") {
    const std::string command = fmt::format("cd {0} && ./trainer {1} < {2} > out.txt 2> err.txt", folder_.string(),
                                            arguments, write("in.txt", input));
    const int status = std::system(command.c_str());
    return {WEXITSTATUS(status), read_all(folder_ / "out.txt"), read_all(folder_ / "err.txt")};
  }

  fs::path folder_;
};

}  // namespace trainer
