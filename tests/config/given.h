// Configurations in a separate folder for each test.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include "engine/base/errors.h"
#include "engine/config/machine/environment.h"
#include "engine/config/plan/resolve.h"

namespace trainer::config {

/// A minimal valid configuration; tests append to it or replace parts.
inline const std::string kLeast =
    "distributed_type: NO\n"
    "use_cpu: true\n"
    "model: {path: m}\n"
    "data: {train: {path: a.txt}}\n";

class Given : public ::testing::Test {
 protected:
  Given() {
    folder_ = std::filesystem::temp_directory_path() /
              fmt::format("config-{}-{}", getpid(), ::testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::create_directories(folder_);
    for (const std::string& variable : known_variables()) unsetenv(variable.c_str());
  }
  ~Given() override { std::filesystem::remove_all(folder_); }

  std::string write(const std::string& name, const std::string& text) {
    const std::string path = (folder_ / name).string();
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }

  Plan resolve(const std::string& text, const std::vector<Override>& overrides = {}) {
    return resolve_plan({write("f.yaml", text), "", overrides});
  }

  /// The problems of `text`, without the folder's name; "" if it is valid.
  std::string problems(const std::string& text, const std::vector<Override>& overrides = {}) {
    try {
      resolve(text, overrides);
      return "";
    } catch (const ConfigError& error) {
      return without_folder(error.what());
    }
  }

  std::string warnings(const std::string& text, const std::vector<Override>& overrides = {}) {
    std::string all;
    for (const std::string& warning : launch_warnings(resolve(text, overrides))) all += without_folder(warning) + "\n";
    return all;
  }

  std::string without_folder(std::string text) const {
    const std::string prefix = folder_.string() + "/";
    for (std::size_t at; (at = text.find(prefix)) != std::string::npos;) text.erase(at, prefix.size());
    return text;
  }

  std::filesystem::path folder_;
};

}  // namespace trainer::config
