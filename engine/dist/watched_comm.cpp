#include "engine/dist/watched_comm.h"

#include <chrono>
#include <map>
#include <mutex>
#include <numeric>

#include <c10/core/ScalarType.h>
#include <fmt/ranges.h>

#include "engine/dist/forwarding_comm.h"
#include "engine/dist/phase.h"
#include "engine/dist/stream_stall.h"
#include "engine/dist/work_clock.h"

namespace trainer::dist {

thread_local std::string_view Phase::now_;

namespace {

/// A rank waits for one collective at a time; another thread may observe its end.
class WaitClock {
 public:
  void begin(int group, uint64_t number) {
    const std::lock_guard lock(mutex_);
    group_ = group, number_ = number, waits_ = true, since_ = Clock::now();
  }
  void end(int group, uint64_t number) {
    const std::lock_guard lock(mutex_);
    if (!waits_ || group != group_ || number != number_) return;  // the rank did not wait for it
    waits_ = false;
    seconds_ += std::chrono::duration<double>(Clock::now() - since_).count();
  }
  double seconds() {
    const std::lock_guard lock(mutex_);
    return seconds_;
  }

 private:
  using Clock = std::chrono::steady_clock;

  std::mutex mutex_;
  int group_ = 0;
  uint64_t number_ = 0;
  bool waits_ = false;
  Clock::time_point since_;
  double seconds_ = 0;
};

WaitClock& wait_clock() {
  static WaitClock clock;
  return clock;
}

class WatchedPending : public Pending {
 public:
  /// `waits`: the device whose stream waits for it; the CPU if this process does.
  WatchedPending(std::unique_ptr<Pending> inner, const CollectiveNotes& notes, uint64_t number, at::Device waits)
      : inner_(std::move(inner)), notes_(notes), number_(number), waits_(waits) {}
  void wait() override {
    notes_.wait(number_, !waits_.is_cpu());
    {
      const StreamStall stall(waits_);
      inner_->wait();
    }
    notes_.end(number_);
  }

 private:
  std::unique_ptr<Pending> inner_;
  CollectiveNotes notes_;
  uint64_t number_;
  at::Device waits_;
};

using Meet = std::function<std::unique_ptr<Comm>()>;
std::unique_ptr<Comm> watched(std::shared_ptr<RankBoard> board, std::string name, std::vector<int> ranks,
                              const Meet& meet);

std::string ranks_text(const std::vector<int>& ranks) {
  constexpr size_t kMost = 8;
  return ranks.size() <= kMost ? fmt::format("{}", fmt::join(ranks, ", "))
                               : fmt::format("{} to {}", ranks.front(), ranks.back());
}

class WatchedComm : public ForwardingComm {
 public:
  /// `ranks`: its members, by their world ranks.
  WatchedComm(std::unique_ptr<Comm> inner, CollectiveNotes notes, std::shared_ptr<RankBoard> board, std::string name,
              std::vector<int> ranks)
      : ForwardingComm(std::move(inner)),
        notes_(std::move(notes)),
        board_(std::move(board)),
        name_(std::move(name)),
        ranks_(std::move(ranks)) {}

  const CollectiveNotes& notes() const { return notes_; }

  std::unique_ptr<Pending> all_gather(const at::Tensor& full, const at::Tensor& shard) override {
    const uint64_t number = notes_.begin(CollectiveKind::kAllGather, full, Phase::now());
    return pending(inner().all_gather(full, shard), notes_, number, full);
  }

  void all_reduce(const at::Tensor& tensor, Reduce op) override {
    const uint64_t number = enter(op == Reduce::kSum ? CollectiveKind::kSum : CollectiveKind::kMax, tensor);
    {
      const StreamStall stall(waits_for(tensor));
      inner().all_reduce(tensor, op);
    }
    notes_.end(number);
  }

  std::unique_ptr<Pending> send(const at::Tensor& tensor, int to) override {
    const CollectiveNotes notes = transfers(rank(), to);
    const uint64_t number = notes.begin(CollectiveKind::kTransfer, tensor, Phase::now());
    return pending(inner().send(tensor, to), notes, number, tensor);
  }

  std::unique_ptr<Pending> receive(const at::Tensor& tensor, int from) override {
    const CollectiveNotes notes = transfers(from, rank());
    const uint64_t number = notes.begin(CollectiveKind::kTransfer, tensor, Phase::now());
    return pending(inner().receive(tensor, from), notes, number, tensor);
  }

  void barrier() override {
    const uint64_t number = enter(CollectiveKind::kBarrier, {});
    inner().barrier();
    notes_.end(number);
  }

  at::Tensor shared_memory(int64_t bytes) override {
    const uint64_t number = enter(CollectiveKind::kSharedMemory, {});
    at::Tensor memory = inner().shared_memory(bytes);
    notes_.end(number);
    return memory;
  }

  std::unique_ptr<Comm> group(const std::string& name, const std::vector<int>& ranks) override {
    if (ranks.size() == 1) return inner().group(name, ranks);
    std::vector<int> members;
    for (int rank : ranks) members.push_back(ranks_.at(static_cast<size_t>(rank)));
    return watched(board_, fmt::format("among the {} ranks {}", name, ranks_text(members)), members,
                   [&] { return inner().group(name, ranks); });
  }

 protected:
  Scattered start_reduce_scatter(const at::Tensor& full) override {
    const uint64_t number = notes_.begin(CollectiveKind::kSum, full, Phase::now());
    Scattered started = inner().reduce_scatter(full);
    started.pending = pending(std::move(started.pending), notes_, number, full);
    return started;
  }

 private:
  /// The device whose stream waits for a collective of this tensor, or the CPU.
  at::Device waits_for(const at::Tensor& tensor) {
    return tensor.defined() && inner().runs_beside() ? tensor.device() : at::Device(at::kCPU);
  }

  std::unique_ptr<Pending> pending(std::unique_ptr<Pending> started, const CollectiveNotes& notes, uint64_t number,
                                   const at::Tensor& tensor) {
    return std::make_unique<WatchedPending>(std::move(started), notes, number, waits_for(tensor));
  }

  /// Begins a blocking collective. When it throws, the board keeps showing that the rank is in it, for the report.
  uint64_t enter(CollectiveKind kind, const at::Tensor& tensor) {
    const uint64_t number = notes_.begin(kind, tensor, Phase::now());
    notes_.wait(number, !waits_for(tensor).is_cpu());
    return number;
  }

  const CollectiveNotes& transfers(int from, int to) {
    const auto found = transfers_.find({from, to});
    if (found != transfers_.end()) return found->second;
    const int sender = ranks_.at(static_cast<size_t>(from)), receiver = ranks_.at(static_cast<size_t>(to));
    const int group =
        board_->add_group(fmt::format("from rank {} to rank {}, {}", sender, receiver, name_), {sender, receiver});
    return transfers_.emplace(std::pair{from, to}, CollectiveNotes(board_, group)).first->second;
  }

  CollectiveNotes notes_;
  std::shared_ptr<RankBoard> board_;
  std::string name_;
  std::vector<int> ranks_;
  std::map<std::pair<int, int>, CollectiveNotes> transfers_;  // by sender and receiver
};

std::unique_ptr<Comm> watched(std::shared_ptr<RankBoard> board, std::string name, std::vector<int> ranks,
                              const Meet& meet) {
  const CollectiveNotes notes(board, board->add_group(name, ranks));
  const uint64_t number = notes.begin(CollectiveKind::kMeeting, {}, Phase::now());
  notes.wait(number);
  auto inner = meet();
  notes.end(number);
  return std::make_unique<WatchedComm>(std::move(inner), notes, std::move(board), std::move(name), std::move(ranks));
}

}  // namespace

std::unique_ptr<Comm> watched_comm(std::shared_ptr<RankBoard> board, int size,
                                   const std::function<std::unique_ptr<Comm>()>& meet) {
  std::vector<int> all(static_cast<size_t>(size));
  std::iota(all.begin(), all.end(), 0);
  return watched(std::move(board), "among all ranks", std::move(all), meet);
}

uint64_t CollectiveNotes::begin(CollectiveKind kind, const at::Tensor& tensor, std::string_view what) const {
  const char* const dtype = tensor.defined() ? c10::toString(tensor.scalar_type()) : "";
  return board_->begin(group_, kind, tensor.defined() ? tensor.numel() : 0, dtype, what);
}

void CollectiveNotes::wait(uint64_t number, bool on_stream) const {
  if (!on_stream) wait_clock().begin(group_, number);
  board_->wait(group_, number);
}

void CollectiveNotes::end(uint64_t number) const {
  board_->end(group_, number);
  wait_clock().end(group_, number);
}

double seconds_waited() {
  return wait_clock().seconds() + seconds_stalled();
}

std::optional<CollectiveNotes> notes_of(Comm& comm) {
  auto* const watched = beneath<WatchedComm>(comm);
  return watched == nullptr ? std::nullopt : std::optional(watched->notes());
}

}  // namespace trainer::dist
