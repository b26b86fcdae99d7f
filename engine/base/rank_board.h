// Each rank publishes its state in memory that the supervisor reads at any time. Writing costs no system call, so every
// collective is recorded. See Note [Watching ranks] in engine/launch/watchdog.h.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string_view>
#include <thread>
#include <vector>

#include "engine/base/published.h"

namespace trainer {

/// Environment variable: the file descriptor of the boards of a machine's ranks, which are stored back to back in the
/// order of LOCAL_RANK.
inline constexpr const char* kBoardVariable = "TRAINER_BOARD_FD";

enum class CollectiveKind : uint8_t { kMeeting, kAllGather, kSum, kMax, kBarrier, kSharedMemory, kTransfer };

// The phases of an update. The time between two updates depends on disks, terminals and data sets; an update takes
// about as long as the one before, so the launcher can detect that a rank hangs in it.
inline constexpr const char* kForwardAndBackward = "forward and backward";
inline constexpr const char* kOptimizerStep = "optimizer step";

/// Trivially copyable text of at most N bytes; longer text is truncated.
template <size_t N>
struct ShortText {
  char bytes[N] = {};

  ShortText() = default;
  ShortText(std::string_view text) { std::copy_n(text.data(), std::min(text.size(), N), bytes); }
  std::string_view view() const { return {bytes, static_cast<size_t>(std::find(bytes, bytes + N, '\0') - bytes)}; }
};

/// One call of a collective.
struct Collective {
  uint64_t number = 0;     // within its group, counted from 1
  uint64_t signature = 0;  // of this call and all before it in the group: once two ranks differ, they always differ
  int64_t elements = 0;
  CollectiveKind kind{};
  ShortText<15> dtype;
  ShortText<80> what;  // the unit it is for; may be ""
};

/// The ranks that call collectives together. Two ranks that send to each other form one group per direction.
struct CollectiveGroup {
  static constexpr int kMostRanks = 1024;  // of a run; higher ranks aren't recorded as members

  ShortText<96> name;  // completes "an all-gather": "among all ranks"
  std::array<uint64_t, kMostRanks / 64> members{};

  void add_member(int rank) {
    if (rank < kMostRanks) members[static_cast<size_t>(rank) / 64] |= uint64_t{1} << (rank % 64);
  }
  bool has_member(int rank) const {
    return rank < kMostRanks && (members[static_cast<size_t>(rank) / 64] >> (rank % 64) & 1) != 0;
  }
};

/// The memory of one rank's board.
struct BoardMemory {
  static constexpr size_t kGroups = 24, kRecent = 32;

  struct Place {
    int64_t step = -1;
    ShortText<56> phase;
  };
  struct Wait {
    int64_t group = 0;
    uint64_t number = 0;  // 0: it doesn't wait
  };
  struct Group {
    Published<CollectiveGroup> group;
    std::atomic<uint64_t> last{0}, done{0};  // the numbers of the newest call, and of the newest one that has returned
    std::array<Published<Collective>, kRecent> recent;
  };

  std::atomic<uint64_t> beats{0};  // grows while the process runs
  Published<Place> place;
  Published<Wait> wait;
  Published<ShortText<1024>> unreadable;  // the mapped file that the process ends for (on_bus_error)
  std::atomic<bool> hides_waits{false};
  std::atomic<uint32_t> group_count{0};
  std::array<Group, kGroups> groups;
};

/// A rank's own board. Every member may be called from any thread.
class RankBoard {
 public:
  /// The board in TRAINER_BOARD_FD, on which mapped files that can't be read are noted from now on; a private one when
  /// this process was not started by our supervisor.
  static std::shared_ptr<RankBoard> from_environment();

  explicit RankBoard(std::shared_ptr<BoardMemory> memory);
  ~RankBoard();
  RankBoard(const RankBoard&) = delete;
  RankBoard& operator=(const RankBoard&) = delete;

  void set_place(int64_t step, std::string_view phase);
  int64_t step() const { return step_.load(std::memory_order_relaxed); }

  /// Returns the group's number for begin(). When there is no room for another group, returns -1, which begin(), wait()
  /// and end() accept too; waits are then hidden.
  int add_group(std::string_view name, const std::vector<int>& members);

  /// Begins a call of a collective and returns its number. Arguments must be equal on all members (`what` may differ in
  /// transfers).
  uint64_t begin(int group, CollectiveKind kind, int64_t elements, std::string_view dtype, std::string_view what);
  /// The rank blocks from now on until this call returns.
  void wait(int group, uint64_t number);
  void end(int group, uint64_t number);
  /// From now on some waits aren't shown: a rank that seems to compute may wait for others.
  void hide_waits() { memory_->hides_waits.store(true, std::memory_order_relaxed); }

 private:
  void beat();

  const std::shared_ptr<BoardMemory> memory_;
  std::atomic<int64_t> step_{-1};
  std::mutex mutex_;  // guards what follows, and writing
  std::array<uint64_t, BoardMemory::kGroups> signatures_{};
  BoardMemory::Wait wait_;

  std::mutex end_mutex_;
  std::condition_variable ended_;
  bool ends_ = false;
  std::thread heart_;
};

}  // namespace trainer
