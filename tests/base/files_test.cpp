#include "engine/base/files.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <optional>
#include <sstream>

#include "engine/base/file_operations.h"
#include "engine/base/folder_lock.h"
#include "engine/base/object_store.h"
#include "engine/base/publish_folder.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;

class Files : public ::testing::Test {
 protected:
  Files() {
    std::string pattern = (fs::temp_directory_path() / "files_test.XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
  }
  ~Files() override { fs::remove_all(folder_); }

  void write(const fs::path& path, const std::string& content) { std::ofstream(path) << content; }

  size_t entries(const fs::path& folder) {
    return static_cast<size_t>(std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
  }

  fs::path folder_;
};

template <class ErrorClass, class Action>
std::string message_of(Action action) {
  try {
    action();
  } catch (const ErrorClass& error) {
    return error.what();
  }
  ADD_FAILURE() << "the expected error was not thrown";
  return "";
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// Runs `action` in a separate process; true when it returned true.
template <class Action>
bool succeeds_in_child(Action action) {
  const pid_t child = fork();
  if (child == 0) _exit(action() ? 0 : 1);
  int status = 0;
  waitpid(child, &status, 0);
  return status == 0;
}

/// In a process whose files cannot grow beyond `bytes`.
template <class Action>
bool with_file_size_limit(rlim_t bytes, Action action) {
  return succeeds_in_child([&] {
    std::signal(SIGXFSZ, SIG_IGN);  // then write() fails with EFBIG, possibly after a partial write
    const rlimit limit{bytes, bytes};
    setrlimit(RLIMIT_FSIZE, &limit);
    return action();
  });
}

TEST_F(Files, ReadsWhatWasPublished) {
  std::string content(100'000, 'x');
  content[5] = '\0';
  publish_file(folder_ / "a", content);
  EXPECT_EQ(read_file(folder_ / "a"), content);
  publish_file(folder_ / "a", "new");
  EXPECT_EQ(read_file(folder_ / "a"), "new");
  EXPECT_EQ(entries(folder_), 1u);
}

TEST_F(Files, ReadErrorsGiveTheReason) {
  EXPECT_TRUE(has(message_of<InputError>([&] { read_file(folder_ / "none"); }), "none: No such file"));
  EXPECT_TRUE(has(message_of<InputError>([&] { read_file(folder_); }), "it is a folder"));
  write(folder_ / "long", "12345");
  EXPECT_TRUE(has(message_of<InputError>([&] { read_file(folder_ / "long", 4); }), "5 bytes, at most 4"));
  EXPECT_EQ(read_file(folder_ / "long", 5), "12345");
  ASSERT_EQ(mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  EXPECT_TRUE(has(message_of<InputError>([&] { read_file(folder_ / "pipe"); }), "it is not a regular file"));
}

TEST_F(Files, PublishErrorsNameThePathAndARemedy) {
  const std::string message = message_of<MachineError>([&] { publish_file(folder_ / "gone" / "a", "x"); });
  EXPECT_TRUE(has(message, (folder_ / "gone" / "a").string())) << message;
  EXPECT_TRUE(has(message, "check the path")) << message;
}

TEST_F(Files, AFailedPublishLeavesTheOldFileUntouched) {
  publish_file(folder_ / "a", "old");
  EXPECT_TRUE(with_file_size_limit(1000, [&] {
    try {
      publish_file(folder_ / "a", std::string(5000, 'x'));
    } catch (const MachineError&) {
      return true;
    }
    return false;
  }));
  EXPECT_EQ(read_file(folder_ / "a"), "old");
  EXPECT_EQ(entries(folder_), 1u);
}

TEST_F(Files, AFileRespectsTheUmask) {
  const mode_t before = umask(0027);
  publish_file(folder_ / "a", "x");
  umask(before);
  struct stat about {};
  ASSERT_EQ(stat((folder_ / "a").c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 0777, 0640u);
}

TEST_F(Files, PublishesAFolderAndReplacesOne) {
  fs::create_directories(folder_ / "temp" / "inner");
  write(folder_ / "temp" / "inner" / "a", "1");
  publish_folder(folder_ / "temp", folder_ / "final");
  EXPECT_EQ(read_file(folder_ / "final" / "inner" / "a"), "1");
  EXPECT_FALSE(fs::exists(folder_ / "temp"));

  fs::create_directories(folder_ / "temp");
  write(folder_ / "temp" / "b", "2");
  publish_folder(folder_ / "temp", folder_ / "final");
  EXPECT_EQ(read_file(folder_ / "final" / "b"), "2");
  EXPECT_FALSE(fs::exists(folder_ / "final" / "inner"));
  EXPECT_EQ(entries(folder_), 1u);
}

TEST_F(Files, AFolderIsNotPublishedOverAFile) {
  fs::create_directories(folder_ / "temp");
  write(folder_ / "final", "mine");
  EXPECT_THROW(publish_folder(folder_ / "temp", folder_ / "final"), MachineError);
  EXPECT_EQ(read_file(folder_ / "final"), "mine");
  EXPECT_TRUE(fs::exists(folder_ / "temp"));
}

/// In a process of its own, which can't rename folders.
TEST_F(Files, PublishesTheFilesOfAFolderWhereNoFolderIsRenamed) {
  fs::create_directories(folder_ / "temp");
  for (const char* const name : {"a", "manifest", "z"}) write(folder_ / "temp" / name, "new");
  fs::create_directories(folder_ / "final");
  for (const char* const name : {"a", "manifest", "stale"}) write(folder_ / "final" / name, "old");
  EXPECT_TRUE(succeeds_in_child([this] {
    file_operations::pretend(file_operations::Pretend::kNoFolders);
    try {
      publish_folder(folder_ / "temp", folder_ / "final");  // half of it would be visible
      return false;
    } catch (const MachineError& error) {
      if (std::string(error.what()).find("renames no folders") == std::string::npos) return false;
    }
    publish_folder(folder_ / "temp", folder_ / "final", "manifest");
    return true;
  }));
  for (const char* const name : {"a", "manifest", "z"}) EXPECT_EQ(read_file(folder_ / "final" / name), "new") << name;
  EXPECT_EQ(entries(folder_ / "final"), 3u);
  EXPECT_EQ(entries(folder_), 1u);
}

TEST_F(Files, AnObjectStoreIsKnownByTheProgramThatShowsIt) {
  const auto is_store = [](const std::string& device) {
    std::istringstream mounts(
        "22 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw\n"
        "90 22 0:41 / /mnt/my\\040runs rw,nosuid shared:40 master:2 - fuse.s3fs s3fs rw,user_id=0\n"
        "91 22 0:42 / /mnt/blobs rw - fuse blobfuse2 rw\n"
        "92 22 0:43 / /mnt/home rw - fuse.sshfs rclone rw\n"
        "93 22 0:44 / /mnt/rclone rw - ext4 rclone rw\n");
    return is_object_store(mounts, device);
  };
  EXPECT_TRUE(is_store("0:41"));
  EXPECT_TRUE(is_store("0:42"));
  for (const char* const device : {"254:1", "0:43", "0:44", "0:4", "0:99"}) EXPECT_FALSE(is_store(device)) << device;
  EXPECT_FALSE(is_in_object_store(folder_));
}

TEST_F(Files, CheckWritableLeavesNothing) {
  check_writable(folder_);
  check_writable(folder_ / "not" / "yet" / "there");
  EXPECT_EQ(entries(folder_), 0u);
  write(folder_ / "file", "");
  EXPECT_THROW(check_writable(folder_ / "file" / "below"), MachineError);
  EXPECT_THROW(check_writable("/proc/1"), MachineError);
}

TEST_F(Files, OnlyOneRunCanLockAFolder) {
  write(folder_ / "mine", "");
  {
    FolderLock lock(folder_);
    const std::string message = message_of<MachineError>([&] { FolderLock second(folder_); });
    EXPECT_TRUE(has(message, "output folder in use: " + folder_.string())) << message;
    EXPECT_TRUE(has(message, "process " + std::to_string(getpid()))) << message;
  }
  EXPECT_EQ(entries(folder_), 2u);  // the lock file names the last holder
  FolderLock again(folder_);
}

TEST_F(Files, AnOwnerDetectsThatItsFolderWasTakenOver) {
  EXPECT_EQ(FolderOwner(folder_).taken_over(), "");
  std::optional<FolderLock> lock(folder_);
  write(folder_ / "mine", "");
  const FolderOwner owner(folder_);
  EXPECT_EQ(owner.taken_over(), "");
  fs::remove(folder_ / ".lock");  // as a user who cleans up
  EXPECT_EQ(owner.taken_over(), "");
  write(folder_ / ".lock", "process 1 on elsewhere");
  EXPECT_TRUE(has(owner.taken_over(), "by process 1 on elsewhere")) << owner.taken_over();
  lock.reset();
  EXPECT_EQ(read_file(folder_ / ".lock"), "process 1 on elsewhere");
  EXPECT_TRUE(has(owner.taken_over(), "by process 1 on elsewhere"));  // even when that process has ended
}

TEST_F(Files, AnOwnerThatCannotReadTheLockChangesNothing) {
  const FolderLock lock(folder_);
  const FolderOwner owner(folder_);
  owner.require();
  write(folder_ / ".lock", "");  // written in place, it is never empty
  EXPECT_EQ(owner.taken_over(), "");
  const std::string message = message_of<MachineError>([&] { owner.require(); });
  EXPECT_TRUE(has(message, "cannot read whose folder " + folder_.string() + " is: .lock: it is empty")) << message;
  fs::remove(folder_ / ".lock");
  fs::create_directory(folder_ / ".lock");
  EXPECT_TRUE(has(message_of<MachineError>([&] { owner.require(); }), "Is a directory"));
}

TEST_F(Files, AnOwnerIsTheOneThatStartedTheProcess) {
  const FolderLock lock(folder_);
  const FolderOwner early(folder_, "process 1 on another, which started this one");
  EXPECT_THROW(early.require(), PeerError);
  FolderOwner(folder_, FolderOwner(folder_).name()).require();
}

TEST_F(Files, EachLockOfAFolderHasItsOwnName) {
  const auto name = [&] {
    const FolderLock lock(folder_);
    return FolderOwner(folder_).name();
  };
  const std::string first = name();
  EXPECT_NE(first, name());
}

TEST_F(Files, EachLockOfAFolderHasAHigherLeaderEpoch) {
  write(folder_ / "mine", "");
  const auto epoch = [&] { return FolderLock(folder_).epoch(); };
  EXPECT_EQ(epoch(), 1);
  EXPECT_EQ(epoch(), 2);
  FolderLock lock(folder_);
  lock.add_line("a line");
  const FolderOwner owner(folder_);
  EXPECT_EQ(owner.epoch(), 3);
  lock.raise_epoch(2);
  EXPECT_EQ(owner.taken_over(), "") << "3 is higher already";
  lock.raise_epoch(7);
  EXPECT_EQ(lock.epoch(), 8);
  EXPECT_EQ(FolderOwner(folder_).epoch(), 8);
  EXPECT_EQ(line_of_holder(folder_), "a line");
  EXPECT_TRUE(has(owner.taken_over(), ", leader epoch 8\n  while this run (process ")) << owner.taken_over();
  EXPECT_TRUE(has(owner.taken_over(), ", leader epoch 3) was paused or cut off")) << owner.taken_over();
}

TEST_F(Files, ALockedFolderIsForThisUserOnly) {
  const FolderLock lock(folder_ / "a" / "b");
  EXPECT_EQ(fs::status(folder_ / "a" / "b").permissions(), fs::perms::owner_all);
}

TEST_F(Files, ARenewedFileIsNotTheOneThatOthersHaveOpen) {
  const fs::path file = folder_ / "log";
  EXPECT_TRUE(renew_file(file));
  EXPECT_FALSE(fs::exists(file));
  write(file, "old\n");
  std::ofstream other(file, std::ios::app);
  EXPECT_TRUE(renew_file(file));
  other << "late\n" << std::flush;
  EXPECT_EQ(read_file(file), "old\n");
  EXPECT_EQ(entries(folder_), 1u);
}

TEST_F(Files, AStaleLockIsTakenOver) {
  write(folder_ / ".lock", "process 1 on elsewhere");
  FolderLock lock(folder_);
  EXPECT_TRUE(has(message_of<MachineError>([&] { FolderLock second(folder_); }), std::to_string(getpid())));
}

TEST_F(Files, AnUnusedFolderIsRemovedWithItsLock) {
  {
    FolderLock lock(folder_ / "a" / "b");
    EXPECT_FALSE(lock.folder_is_used());
  }
  EXPECT_EQ(entries(folder_), 0u);
  {
    FolderLock lock(folder_ / "a" / "b");
    write(folder_ / "a" / "b" / "result", "");
    EXPECT_TRUE(lock.folder_is_used());
  }
  EXPECT_TRUE(fs::exists(folder_ / "a" / "b" / "result"));
  EXPECT_EQ(entries(folder_ / "a" / "b"), 2u);
  { FolderLock lock(folder_ / "a" / "b"); }
  EXPECT_TRUE(fs::exists(folder_ / "a" / "b"));
}

}  // namespace
}  // namespace trainer
