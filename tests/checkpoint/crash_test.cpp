// Note [Crash points]
// At each single file operation of a save, a process is killed, or a full or broken disk fails. Whatever is left, the
// newest intact checkpoint is found, holds what was saved, bit for bit, and the next save works.
//
// TRAINER_EVERY_CRASH_POINT=1 tests all of them (tools/crash_points.sh). Without it: every third one if there are
// several ranks, and no EDQUOT.
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <map>
#include <numeric>

#include <gtest/gtest.h>

#include "engine/base/errors.h"
#include "engine/base/file_operations.h"
#include "engine/checkpoint/checkpoint_folder.h"
#include "engine/dist/forwarding_comm.h"
#include "tests/checkpoint/tiny_run.h"
#include "tests/support/temporary_folder.h"

namespace trainer::testing {
namespace {

namespace fs = std::filesystem;
using file_operations::Fault;

bool every_point() {
  return std::getenv("TRAINER_EVERY_CRASH_POINT") != nullptr;
}

/// Checks that a run launched after the crash finds an intact checkpoint of `step` or the step before, and can save
/// step + 1. `skips`: why it may skip the newest one.
void expect_recovers(const fs::path& folder, int64_t step, const std::string& where, bool is_signed = false,
                     const std::string& skips = "not finished") {
  const auto comm = dist::solo_comm();
  TinyRun run(false, *comm, {}, is_signed);
  try {
    const checkpoint::Loaded loaded = run.load_newest(folder);
    const int64_t found = loaded.manifest.progress.step;
    EXPECT_TRUE(found == step || found == step - 1) << where << ": found step " << found;
    EXPECT_TRUE(run.is_at(found)) << where << ": wrong values";
    for (const std::string& text : loaded.skipped)
      EXPECT_TRUE(text.find("not finished") != text.npos || text.find(skips) != text.npos) << where << ": " << text;
    run.save(folder, step + 1);
    EXPECT_EQ(run.load_newest(folder).manifest.progress.step, step + 1) << where;
    EXPECT_TRUE(run.is_at(step + 1)) << where;
    EXPECT_TRUE(checkpoint::find_unfinished(folder).empty()) << where;
  } catch (const std::exception& error) {
    ADD_FAILURE() << where << ": " << error.what();
  }
}

/// The number of ranks, whether the model is sharded, whether saving is asynchronous, how many ranks see the folder
/// (0: all), and whether checkpoints are signed.
struct Setting {
  int ranks;
  bool sharded, async;
  int keepers = 0;
  bool is_signed = false;

  std::string text() const {
    return fmt::format("{} ranks{}{}{}{}", ranks, is_signed ? ", signed" : "", sharded ? ", sharded" : "",
                       async ? ", beside training" : "",
                       keepers > 0 ? fmt::format(", {} see the folder", keepers) : "");
  }
  bool sees(int rank) const { return keepers == 0 || rank < keepers; }
};

const Setting kSettings[] = {{1, false, false},       {1, false, true},   {2, false, false},
                             {2, true, true},         {4, true, false},   {4, false, true},
                             {2, false, false, 1},    {4, true, true, 2}, {1, false, false, 0, true},
                             {2, true, true, 0, true}};

/// Dies at its `last_send`-th send.
class DyingComm : public dist::ForwardingComm {
 public:
  DyingComm(std::unique_ptr<Comm> inner, int last_send) : ForwardingComm(std::move(inner)), left_(last_send) {}
  std::unique_ptr<dist::Pending> send(const at::Tensor& tensor, int to) override {
    if (--left_ == 0) raise(SIGKILL);
    return ForwardingComm::send(tensor, to);
  }

 private:
  int left_;
};

/// `last_send`: the send at which this rank dies; 0: it survives.
checkpoint::FolderAccess access_of(const Setting& setting, dist::Comm& comm, int last_send = 0) {
  if (setting.keepers == 0) return {};
  std::vector<int> all(static_cast<size_t>(comm.size()));
  std::iota(all.begin(), all.end(), 0);
  return {std::make_shared<DyingComm>(comm.group("checkpoints", all), last_send), setting.keepers};
}

class CrashPoints : public ::testing::TestWithParam<Setting> {
 protected:
  CrashPoints() {
    codes([](TinyRun& run, const fs::path& folder, dist::Comm&) {
      for (const int64_t step : {1, 2, 3}) run.save(folder, step);
      return kSaved;
    });
    fs::rename(folder_, before_);
  }

  /// Runs `body` on all ranks, with a run and the folder of this test, or a missing folder for a rank that doesn't see
  /// it. `last_sends`: for the ranks that die in a transfer.
  template <class Body>
  std::vector<int> codes(const Body& body, const std::map<int, int>& last_sends = {}) {
    return run_processes(GetParam().ranks, [&](dist::Comm& comm) {
      const auto dying = last_sends.find(comm.rank());
      TinyRun run(GetParam().sharded, comm, access_of(GetParam(), comm, dying == last_sends.end() ? 0 : dying->second),
                  GetParam().is_signed);
      fs::create_directories(folder_);
      comm.barrier();
      return body(run, GetParam().sees(comm.rank()) ? folder_ : folder_ / "not there", comm);
    });
  }

  /// Restores the folder to its state after step 3, with checkpoints 2 and 3.
  void restore() {
    fs::remove_all(folder_);
    fs::copy(before_, folder_, fs::copy_options::recursive | fs::copy_options::copy_symlinks);
  }

  /// The number of operations of the save of step 4, by rank.
  std::vector<int> operations() {
    restore();
    return codes([](TinyRun& run, const fs::path& folder, dist::Comm&) {
      run.save(folder, 4, GetParam().async);
      return static_cast<int>(file_operations::operations());
    });
  }

  int stride() const { return every_point() || GetParam().ranks == 1 ? 1 : 3; }

  TemporaryFolder temporary_;
  fs::path folder_ = temporary_.path() / "run", before_ = temporary_.path() / "before";
};

TEST_P(CrashPoints, AKillAtAnyOperationLeavesAnIntactCheckpoint) {
  const std::vector<int> counts = operations();
  EXPECT_GT(counts[0], 20);
  for (int rank = 0; rank < GetParam().ranks; ++rank) {
    if (GetParam().sees(rank))
      EXPECT_GT(counts[static_cast<size_t>(rank)], 3);
    else
      EXPECT_EQ(counts[static_cast<size_t>(rank)], 0);
    for (int operation = 1; operation <= counts[static_cast<size_t>(rank)]; operation += stride()) {
      const std::string where = fmt::format("{}: rank {} killed at operation {}", GetParam().text(), rank, operation);
      restore();
      const auto ends = codes([&](TinyRun& run, const fs::path& folder, dist::Comm& comm) {
        if (comm.rank() == rank) file_operations::plan_fault({.operation = operation});
        run.save(folder, 4, GetParam().async);
        return kSaved;
      });
      EXPECT_EQ(ends[static_cast<size_t>(rank)], -SIGKILL) << where;
      for (const int end : ends)
        EXPECT_TRUE(end == -SIGKILL || end == kSaved || end == kOtherRankLost) << where << ": " << end;
      expect_recovers(folder_, 4, where, GetParam().is_signed);
      if (HasFailure()) return;
    }
  }
}

class Transfers : public CrashPoints {};

TEST_P(Transfers, ADeathInATransferLeavesAnIntactCheckpoint) {
  constexpr int kSends = 6;  // begin; a part and its head; the end and its head; one more
  int unharmed = 0;
  for (int send = 1; send <= kSends; ++send) {
    const int rank = GetParam().ranks - 1;
    const std::string where = fmt::format("{}: rank {} died at send {}", GetParam().text(), rank, send);
    restore();
    const auto ends = codes(
        [&](TinyRun& run, const fs::path& folder, dist::Comm&) {
          run.save(folder, 4, GetParam().async);
          return kSaved;
        },
        {{rank, send}});
    const bool died = ends.back() == -SIGKILL;
    unharmed += died ? 0 : 1;
    EXPECT_EQ(fs::exists(folder_ / "checkpoint-4"), !died) << where;
    expect_recovers(folder_, 4, where);
  }
  EXPECT_EQ(unharmed, 1);  // it sends five times
}

/// Makes each operation of a save fail, one after the other, while the run continues.
int fail_each(TinyRun& run, const fs::path& folder, dist::Comm& comm, const Setting& setting,
              const std::vector<int>& counts, int stride) {
  int64_t step = 3;
  std::vector<int> errors{ENOSPC, EIO};
  if (every_point()) errors.push_back(EDQUOT);  // takes the same path as ENOSPC
  for (const int error : errors)
    for (int rank = 0; rank < setting.ranks; ++rank)
      for (int operation = 1; operation <= counts[static_cast<size_t>(rank)]; operation += stride) {
        ++step;
        // A full disk stays full; a broken one reports an error once.
        if (comm.rank() == rank)
          file_operations::plan_fault({.operation = operation, .error = error, .lasting = error != EIO});
        bool saved = true;
        try {
          run.save(folder, step, setting.async);
        } catch (const MachineError&) {
          saved = false;
        }
        file_operations::plan_fault({});
        comm.barrier();
        const int64_t found = run.load_newest(folder).manifest.progress.step;
        const bool right = run.is_at(found) && (found == step || (!saved && found == step - 1));
        if (comm.sum(right ? 0 : 1) > 0) {
          fprintf(stderr, "%s: errno %d at operation %d of rank %d: saved %d, found step %ld of %ld\n",
                  setting.text().c_str(), error, operation, rank, saved, found, step);
          return kBroken;
        }
        if (found != step) run.save(folder, step, setting.async);  // there is room again
        comm.barrier();
      }
  return kSaved;
}

TEST_P(CrashPoints, AnErrorAtAnyOperationLeavesTheRunAndAnIntactCheckpoint) {
  const std::vector<int> counts = operations();
  restore();
  const auto ends = codes([&](TinyRun& run, const fs::path& folder, dist::Comm& comm) {
    return fail_each(run, folder, comm, GetParam(), counts, stride());
  });
  for (const int end : ends) EXPECT_EQ(end, kSaved);
}

/// On a file system that can't do everything, whose recovery the launcher does before the ranks look for a checkpoint.
class CrashPointsOnPoorFileSystems : public ::testing::TestWithParam<file_operations::Pretend> {
 protected:
  void make_before(bool is_signed) {
    is_signed_ = is_signed;
    fs::remove_all(folder_);
    fs::remove_all(before_);
    fs::create_directory(folder_);
    save(folder_, {2, 3}, 0);  // it is signed under its name
    fs::rename(folder_, before_);
  }

  /// Kills it at the `operation`; 0: doesn't. Returns the number of operations, or -SIGKILL.
  int save(const fs::path& into, const std::vector<int64_t>& steps, int operation) const {
    return run_processes(1,
                         [&](dist::Comm& comm) {
                           TinyRun run(false, comm, {}, is_signed_);
                           file_operations::pretend(GetParam());
                           for (const int64_t step : steps) {
                             file_operations::plan_fault({.operation = operation});
                             run.save(into, step);
                           }
                           return static_cast<int>(file_operations::operations());
                         })
        .front();
  }

  void restore() const {
    fs::remove_all(folder_);
    fs::copy(before_, folder_, fs::copy_options::recursive | fs::copy_options::copy_symlinks);
  }

  /// Kills a save of `step` at every operation, and calls `check` with the operation after each.
  template <class Check>
  void kill_at_each(int64_t step, const Check& check) {
    restore();
    const int operations = save(folder_, {step}, 0);
    EXPECT_GT(operations, 20);
    for (int operation = 1; operation <= operations; ++operation) {
      restore();
      EXPECT_EQ(save(folder_, {step}, operation), -SIGKILL) << operation;
      check(operation);
      if (HasFailure()) return;
    }
  }

  const TemporaryFolder temporary_;
  const fs::path before_ = temporary_.path() / "before", folder_ = temporary_.path() / "run";
  bool is_signed_ = false;
};

/// NFS can't exchange two folders: a checkpoint that is replaced has no name for a moment. Where no folder is renamed,
/// it has files of both.
TEST_P(CrashPointsOnPoorFileSystems, AKillAtAnyOperationLeavesTheReplacedCheckpoint) {
  int moved_away = 0;
  make_before(false);
  kill_at_each(3, [&](int operation) {
    moved_away += fs::exists(folder_ / "checkpoint-3") ? 0 : 1;
    checkpoint::recover_interrupted(folder_);
    const auto comm = dist::solo_comm();
    TinyRun run(false, *comm);
    EXPECT_EQ(run.load_newest(folder_).manifest.progress.step, 3) << operation;
    EXPECT_TRUE(run.is_at(3)) << operation;
    run.save(folder_, 4);
    EXPECT_TRUE(checkpoint::find_unfinished(folder_).empty()) << operation;
  });
  EXPECT_EQ(moved_away, GetParam() == file_operations::Pretend::kNoExchange ? 1 : 0);
}

TEST_P(CrashPointsOnPoorFileSystems, AKillAtAnyOperationLeavesAnIntactCheckpoint) {
  for (const bool is_signed : {false, true}) {
    int half = 0;
    make_before(is_signed);
    kill_at_each(4, [&](int operation) {
      const fs::path newest = folder_ / "checkpoint-4";
      half += fs::exists(newest) && !checkpoint::is_checkpoint(newest) ? 1 : 0;
      checkpoint::recover_interrupted(folder_);
      EXPECT_TRUE(!fs::exists(newest) || checkpoint::is_checkpoint(newest) || fs::is_empty(newest)) << operation;
      // Metrics are added to a signed checkpoint by replacing it.
      expect_recovers(folder_, 4, fmt::format("killed at operation {}", operation), is_signed,
                      GetParam() == file_operations::Pretend::kNoFolders ? "sign" : "not finished");
    });
    EXPECT_EQ(half > 0, GetParam() == file_operations::Pretend::kNoFolders);
  }
}

INSTANTIATE_TEST_SUITE_P(Lacks, CrashPointsOnPoorFileSystems,
                         ::testing::Values(file_operations::Pretend::kNoExchange,
                                           file_operations::Pretend::kNoFolders));
INSTANTIATE_TEST_SUITE_P(Ranks, CrashPoints, ::testing::ValuesIn(kSettings));
INSTANTIATE_TEST_SUITE_P(Ranks, Transfers, ::testing::Values(kSettings[6], kSettings[7]));

}  // namespace
}  // namespace trainer::testing
