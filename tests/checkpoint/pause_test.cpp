// Note [Pause points]
// At each single file operation of a save, a process is paused, as with its machine. Another life of the run takes the
// folder, as it can where a file server drops the locks of a machine that doesn't answer; it loads the newest
// checkpoint, and saves. Then the first process wakes: nothing that it still does may show in the folder.
#include <fcntl.h>
#include <sys/wait.h>

#include <fstream>
#include <map>

#include <gtest/gtest.h>

#include "engine/base/file_operations.h"
#include "engine/base/files.h"
#include "engine/base/folder_lock.h"
#include "engine/checkpoint/checkpoint_folder.h"
#include "engine/checkpoint/leader_epoch.h"
#include "tests/checkpoint/tiny_run.h"
#include "tests/support/temporary_folder.h"

namespace trainer::testing {
namespace {

namespace fs = std::filesystem;

/// Every file of `folder` with its content, and every link with its target, but for the lock. `empty_ones`: also
/// folders with nothing in them, as a removal file by file leaves for a moment.
std::map<std::string, std::string> content_of(const fs::path& folder, bool empty_ones) {
  std::map<std::string, std::string> content;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const std::string name = entry.path().lexically_relative(folder).string();
    if (entry.is_symlink())
      content[name] = fs::read_symlink(entry.path()).string();
    else if (entry.is_regular_file() && name != ".lock")
      content[name] = read_file(entry.path());
    else if (entry.is_directory() && (empty_ones || !fs::is_empty(entry.path())))
      content[name] = "";
  }
  return content;
}

struct PausedSave {
  const char* name;
  bool async, is_signed;
  bool renames_folders = true;
};

class PausePoints : public ::testing::TestWithParam<PausedSave> {
 protected:
  PausePoints() {
    in_a_process([](TinyRun& run, const fs::path& folder) {
      for (const int64_t step : {1, 2, 3}) run.save(folder, step);
      return kSaved;
    });
    fs::rename(folder_, before_);
  }

  ~PausePoints() override {
    if (paused_ > 0) kill(paused_, SIGKILL);
  }

  /// Starts a process that locks the folder of this test and calls `body`, whose result is the exit code.
  template <class Body>
  pid_t start(const Body& body) {
    const pid_t child = fork();
    if (child != 0) return child;
    if (!GetParam().renames_folders) file_operations::pretend(file_operations::Pretend::kNoFolders);
    int code = kBroken;
    try {
      const auto comm = dist::solo_comm();
      FolderLock lock(folder_);
      lock.raise_epoch(checkpoint::newest_epoch(folder_));  // as a launcher does
      TinyRun run(false, *comm, {}, GetParam().is_signed);
      code = body(run, folder_);
    } catch (const PeerError&) {
      code = kOtherRankLost;
    } catch (const MachineError&) {
      code = kNotSaved;
    } catch (const std::exception& error) {
      fprintf(stderr, "%s\n", error.what());
    }
    _exit(code);
  }

  template <class Body>
  int in_a_process(const Body& body) {
    int status = 0;
    waitpid(start(body), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

  /// A process that saves step 4, and is paused at the `operation`-th operation; 0: it ended before.
  pid_t paused_at(int operation) {
    fs::remove_all(folder_);
    fs::copy(before_, folder_, fs::copy_options::recursive | fs::copy_options::copy_symlinks);
    const pid_t process = start([&](TinyRun& run, const fs::path& folder) {
      file_operations::plan_fault({.operation = operation, .signal = SIGSTOP});
      run.save(folder, 4, GetParam().async);
      return kSaved;
    });
    int status = 0;
    waitpid(process, &status, WUNTRACED);
    return paused_ = WIFSTOPPED(status) ? process : 0;
  }

  /// The next life: what it loads must still be there afterwards, bit for bit. Returns the step it began from.
  int live_on() {
    fs::remove(folder_ / ".lock");
    return in_a_process([](TinyRun& run, const fs::path& folder) {
      checkpoint::remove_partial(folder);
      const int64_t step = run.load_newest(folder).manifest.progress.step;
      if (!run.is_at(step)) return static_cast<int>(kBroken);
      run.save(folder, step + 1);
      run.save(folder, step + 2);
      return static_cast<int>(step);
    });
  }

  TemporaryFolder temporary_;
  fs::path folder_ = temporary_.path() / "run", before_ = temporary_.path() / "before";
  pid_t paused_ = 0;
};

/// A process that stops at the n-th operation of removing what is unfinished in `folder`; 0 if there are fewer.
pid_t removal_stopped_at(int operation, const fs::path& folder) {
  const pid_t process = fork();
  if (process == 0) {
    file_operations::plan_fault({.operation = operation, .signal = SIGSTOP});
    file_operations::begin_save(1);
    const file_operations::SaveScope scope;
    checkpoint::remove_partial(folder);
    _exit(0);
  }
  int status = 0;
  waitpid(process, &status, WUNTRACED);
  return WIFSTOPPED(status) ? process : 0;
}

TEST(UnfinishedFolder, CannotBePublishedWhileItIsRemoved) {
  const TemporaryFolder temporary;
  const fs::path folder = temporary.path() / "run", partial = folder / ".checkpoint-7.0a1b2c3d.partial";
  int operation = 1;
  for (pid_t process = 1; process != 0; ++operation) {
    fs::create_directories(partial);
    for (const char* const name : {"manifest.json", "rank0.bin", "rank1.bin"}) std::ofstream(partial / name) << name;
    process = removal_stopped_at(operation, folder);
    if (operation > 1) EXPECT_FALSE(fs::exists(partial)) << "at operation " << operation;  // nothing to rename
    if (process != 0) kill(process, SIGCONT), waitpid(process, nullptr, 0);
    EXPECT_TRUE(fs::is_empty(folder));
  }
  EXPECT_EQ(operation, 7);  // a rename, three files, a folder; the sixth time nothing is left to stop at
}

TEST_P(PausePoints, AProcessThatWakesChangesNothing) {
  int operation = 1;
  std::map<int, int> begun;  // lives, by the step that they began from
  for (pid_t process = 0; (process = paused_at(operation)) != 0; ++operation) {
    const std::string where = fmt::format("{}: paused at operation {}", GetParam().name, operation);
    const int step = live_on();
    ASSERT_TRUE(step == 3 || step == 4) << where << ": " << step;
    ++begun[step];
    const auto expected = content_of(folder_, GetParam().renames_folders);
    kill(process, SIGCONT);
    int status = 0;
    waitpid(process, &status, 0);
    ASSERT_TRUE(WIFEXITED(status)) << where;
    EXPECT_NE(WEXITSTATUS(status), kBroken) << where;
    const auto found = content_of(folder_, GetParam().renames_folders);
    for (const auto& [name, text] : expected) {
      ASSERT_TRUE(found.contains(name)) << where << ": " << name << " is gone";
      EXPECT_TRUE(found.at(name) == text)
          << where << ": " << name << " was " << text.substr(0, 40) << " and is " << found.at(name).substr(0, 40);
    }
    for (const auto& [name, text] : found) EXPECT_TRUE(expected.contains(name)) << where << ": " << name << " is new";
    if (HasFailure()) return;
  }
  EXPECT_GT(operation, 20);
  EXPECT_GT(begun[3], 10);
  EXPECT_GT(begun[4], 3);
}

INSTANTIATE_TEST_SUITE_P(Saves, PausePoints,
                         ::testing::Values(PausedSave{"saved at once", false, false},
                                           PausedSave{"beside training", true, false},
                                           PausedSave{"signed", false, true},
                                           PausedSave{"where no folder is renamed", false, false, false},
                                           PausedSave{"signed, where no folder is renamed", false, true, false}));

}  // namespace
}  // namespace trainer::testing
