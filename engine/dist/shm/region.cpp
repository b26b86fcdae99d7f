#include "engine/dist/shm/region.h"

#include <poll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <random>
#include <string>

#include <c10/core/ScalarType.h>
#include <fmt/format.h>

#include "engine/base/errors.h"
#include "engine/base/round_up.h"
#include "engine/base/usable_cpus.h"
#include "engine/dist/shared_memory.h"

namespace trainer::dist::shm {
namespace {

constexpr std::chrono::milliseconds kLook{100};  // between two looks at whether a rank is still there
constexpr const char* kJoins = "joins";
constexpr const char* kCannot = "cannot";

/// Readable once the process has ended, also before its parent has noticed.
FileDescriptor watch(pid_t process) {
  return FileDescriptor(static_cast<int>(syscall(SYS_pidfd_open, process, 0)));
}

/// A short poll saves a sleep and a wakeup, but takes the core from a rank that has none.
int spins_for(int ranks) {
  return usable_cpus() >= ranks ? 500 : 0;
}

std::string describe(const Call& call) {
  return fmt::format("{} of {} bytes of {}", c10d::opTypeToString(static_cast<c10d::OpType>(call.kind)), call.bytes,
                     c10::toString(static_cast<c10::ScalarType>(call.dtype)));
}

}  // namespace

Call call_of(c10d::OpType kind, const at::Tensor& tensor) {
  return {static_cast<int32_t>(kind), static_cast<int32_t>(tensor.scalar_type()),
          static_cast<int64_t>(tensor.nbytes())};
}

/// What one rank shows the others.
struct Region::Line {
  alignas(64) Signal steps;
  alignas(64) Call calls[2];  // by the step's parity
  std::atomic<uint32_t> left;
  pid_t process;
  uint64_t nonce;  // rank 0's: shows that this is the memory of this run
};

int64_t Region::slots_begin(int size) {
  return round_up(size * static_cast<int64_t>(sizeof(Line)), 4096);
}

int64_t Region::bytes(int size) {
  return slots_begin(size) + size * (2 * kSlotBytes + size * static_cast<int64_t>(sizeof(Ring)));
}

Region::Line& Region::line(int rank) const {
  return reinterpret_cast<Line*>(memory_)[rank];
}

std::byte* Region::slot(int rank, int turn) const {
  return memory_ + slots_begin(size_) + (2 * rank + turn) * kSlotBytes;
}

Ring& Region::ring(int from, int to) const {
  return reinterpret_cast<Ring*>(slot(size_, 0))[from * size_ + to];  // after the last slot
}

Region::Region(int memory, int rank, int size, std::chrono::milliseconds timeout)
    : rank_(rank), size_(size), spins_(spins_for(size)), timeout_(timeout) {
  struct stat found {};
  if (fstat(memory, &found) != 0 || found.st_size != bytes(size)) return;
  void* const at = mmap(nullptr, static_cast<size_t>(bytes(size_)), PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
  if (at != MAP_FAILED) memory_ = static_cast<std::byte*>(at);
}

Region::~Region() {
  if (memory_ == nullptr) return;
  line(rank_).left.store(1, std::memory_order_release);
  munmap(memory_, static_cast<size_t>(bytes(size_)));
}

std::unique_ptr<Region> Region::meet(c10d::Store& store, int rank, int size, std::chrono::milliseconds timeout) {
  FileDescriptor memory;  // the first rank's stays open until all have answered
  std::unique_ptr<Region> region;
  uint64_t nonce = 0;
  if (rank == 0) {
    memory.reset(memfd_create("trainer ranks", MFD_CLOEXEC));
    if (memory && ftruncate(memory.get(), bytes(size)) != 0) memory.reset();
    region.reset(new Region(memory.get(), rank, size, timeout));
    nonce = std::random_device()() | uint64_t{std::random_device()()} << 32;
    if (region->memory_ != nullptr) region->line(0).nonce = nonce;
    store.set("memory", fmt::format("{} {}", nonce, path_for_others(memory)));
  } else {
    const std::string given = store.get_to_str("memory");
    nonce = std::stoull(given);
    memory = open_memory(given.substr(given.find(' ') + 1));
    region.reset(new Region(memory.get(), rank, size, timeout));
  }
  const bool joins = region->memory_ != nullptr && region->line(0).nonce == nonce && watch(getpid());
  if (joins) region->line(rank).process = getpid();
  store.set(fmt::format("answer {}", rank), std::string(joins ? kJoins : kCannot));
  if (rank == 0) {
    bool all = true;
    for (int peer = 0; peer < size; ++peer) all = store.get_to_str(fmt::format("answer {}", peer)) == kJoins && all;
    store.set("outcome", std::string(all ? kJoins : kCannot));
  }
  if (store.get_to_str("outcome") != kJoins) return nullptr;
  region->watch_peers();
  return region;
}

void Region::watch_peers() {
  for (int peer = 0; peer < size_; ++peer) {
    const pid_t process = line(peer).process;
    FileDescriptor watched = process == getpid() ? FileDescriptor() : watch(process);
    const bool ended = process != getpid() && !watched;
    peers_.push_back({std::move(watched), ended});
  }
}

bool Region::is_gone(int peer) const {
  const auto& [process, ended] = peers_[static_cast<size_t>(peer)];
  if (ended || line(peer).left.load(std::memory_order_acquire) != 0) return true;
  pollfd ends{process.get(), POLLIN, 0};
  return process && poll(&ends, 1, 0) > 0;
}

void Region::wait(Signal& signal, uint32_t target, int peer, const std::atomic<bool>* give_up) const {
  const auto end = std::chrono::steady_clock::now() + timeout_;
  for (int spins = spins_; !signal.wait(target, spins, kLook); spins = 0) {
    if (give_up != nullptr && give_up->load()) throw PeerError("this rank ended before rank {} took its message", peer);
    // It may have raised the signal just before it ended.
    if (is_gone(peer) && !signal.reached(target))
      throw PeerError("rank {} of {} was lost (process {} has ended)", peer, size_, line(peer).process);
    if (std::chrono::steady_clock::now() > end)
      throw PeerError("rank {} of {} has not come for {} s (training.ddp_timeout)", peer, size_,
                      std::chrono::duration_cast<std::chrono::seconds>(timeout_).count());
  }
}

void Region::step(const Call& call) {
  Line& own = line(rank_);
  const uint32_t number = own.steps.value.load(std::memory_order_relaxed) + 1;
  own.calls[number % 2] = call;
  own.steps.raise(number);
  for (int peer = 0; peer < size_; ++peer) {
    if (peer == rank_) continue;
    wait(line(peer).steps, number, peer);
    const Call theirs = line(peer).calls[number % 2];
    if (theirs != call)
      throw PeerError("ranks call different collectives: rank {} {}, rank {} {}", rank_, describe(call), peer,
                      describe(theirs));
  }
}

}  // namespace trainer::dist::shm
