#include "engine/base/regular_file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include "engine/base/errors.h"
#include "engine/base/mapped_file.h"
#include "tests/support/temporary_folder.h"

namespace trainer {
namespace {

/// What `work` throws, or "".
template <class F>
std::string refusal(const F& work) {
  try {
    work();
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

class RegularFiles : public ::testing::Test {
 protected:
  RegularFiles() { std::ofstream(path_) << std::string(10'000, 'a'); }
  std::string change(const RegularFile& file) const {
    return refusal([&] { file.check_unchanged(); });
  }

  const testing::TemporaryFolder folder_;
  const std::string path_ = (folder_.path() / "file").string();
};

TEST_F(RegularFiles, StayAsTheyWereOpened) {
  const RegularFile file(path_);
  EXPECT_EQ(file.size(), 10'000);
  EXPECT_EQ(change(file), "");
  std::filesystem::rename(path_, path_ + ".old");  // another file in its place is another file
  std::ofstream(path_) << "b";
  EXPECT_EQ(change(file), "");
  std::filesystem::remove(path_ + ".old");
  EXPECT_EQ(change(file), "");
}

TEST_F(RegularFiles, AreKnownToHaveAnotherSize) {
  const RegularFile file(path_);
  std::filesystem::resize_file(path_, 9'000);
  EXPECT_EQ(change(file), path_ + " was changed while it was in use: it had 10000 bytes and now has 9000\n  wait for the "
                                  "other program, then run again");
}

TEST_F(RegularFiles, AreKnownToHaveBeenWrittenTo) {
  const RegularFile file(path_);
  if (!file.is_local()) GTEST_SKIP() << folder_.path() << " isn't on a local file system, which this test needs";
  std::fstream(path_, std::ios::in | std::ios::out) << "b";
  const timespec times[2] = {{0, UTIME_OMIT}, {1'000'000'000, 0}};  // clocks of file systems tick every few ms
  ASSERT_EQ(utimensat(AT_FDCWD, path_.c_str(), times, 0), 0);
  EXPECT_EQ(change(file), path_ + " was changed while it was in use: something wrote to it\n  wait for the other "
                                  "program, then run again");
}

TEST_F(RegularFiles, OfTheKernelArentOnALocalFileSystem) {
  EXPECT_FALSE(RegularFile("/proc/self/status").is_local());
}

TEST_F(RegularFiles, AreWhatCanBeRead) {
  const auto opened = [](const std::string& path) { return refusal([&] { RegularFile file(path); }); };
  EXPECT_EQ(opened(path_ + "s"), "cannot read " + path_ + "s: No such file or directory");
  EXPECT_EQ(opened(folder_.path().string()), "cannot read " + folder_.path().string() + ": it is a folder");
  const std::string pipe = path_ + ".pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(opened(pipe), "cannot read " + pipe + ": it is not a regular file");
}

TEST_F(RegularFiles, CanBeReadAhead) {
  const MappedFile mapped((RegularFile(path_)));  // stays when the file is closed
  EXPECT_TRUE(MappedFile::read_now(mapped.bytes().substr(4'097, 100)));
  EXPECT_TRUE(MappedFile::read_now(mapped.bytes()));
  EXPECT_TRUE(MappedFile::read_now({}));
  EXPECT_EQ(mapped.bytes(), std::string(10'000, 'a'));
}

TEST_F(RegularFiles, ThatHaveBeenTruncatedCantBeReadAhead) {
  const MappedFile mapped(path_);
  std::filesystem::resize_file(path_, 100);
  EXPECT_TRUE(MappedFile::read_now(mapped.bytes().substr(0, 100)));
  EXPECT_FALSE(MappedFile::read_now(mapped.bytes()));
}

}  // namespace
}  // namespace trainer
