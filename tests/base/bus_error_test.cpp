#include "engine/base/bus_error.h"

#include <unistd.h>

#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include "engine/base/mapped_file.h"
#include "tests/support/temporary_folder.h"

namespace trainer {
namespace {

std::string mapped_at(const void* address, size_t most = 4096) {
  std::string path(most, '?');
  path.resize(file_mapped_at(address, path.data(), most));
  return path;
}

class BusErrors : public ::testing::Test {
 protected:
  BusErrors() { std::ofstream(path_) << std::string(10'000, 'a'); }

  const testing::TemporaryFolder folder_;
  const std::string path_ = std::filesystem::canonical(folder_.path()).string() + "/a file - with a-b";
};

TEST_F(BusErrors, FindTheMappedFile) {
  const MappedFile file(path_), other("/proc/self/exe");
  EXPECT_EQ(mapped_at(file.bytes().data()), path_);
  EXPECT_EQ(mapped_at(&file.bytes().back()), path_);
  EXPECT_EQ(mapped_at(file.bytes().data(), 10), path_.substr(0, 10));
  EXPECT_EQ(mapped_at(other.bytes().data()), std::filesystem::read_symlink("/proc/self/exe"));
}

TEST_F(BusErrors, FindNothingElse) {
  const int local = 0;
  EXPECT_EQ(mapped_at(nullptr), "");
  EXPECT_EQ(mapped_at(&local).find('/'), std::string::npos);  // "[stack]", or a fiber's
}

using BusErrorsDeathTest = BusErrors;

TEST_F(BusErrorsDeathTest, AreRecordedBeforeTheyEndTheProcess) {
  const auto read_truncated = [this] {
    on_bus_error([](const char* path, size_t length) {
      if (write(STDERR_FILENO, path, length) < 0) _exit(1);
    });
    const MappedFile file(path_);
    std::filesystem::resize_file(path_, 10);
    const volatile char last = file.bytes().back();
    _exit(last);
  };
  EXPECT_EXIT(read_truncated(), ::testing::KilledBySignal(SIGBUS), "a file - with a-b");
}

}  // namespace
}  // namespace trainer
