// The memory that the ranks of one machine share to communicate.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <torch/csrc/distributed/c10d/Store.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include "engine/base/file_descriptor.h"
#include "engine/dist/shm/signal.h"

namespace trainer::dist::shm {

/// Bytes of a collective that a rank offers at a time: small enough that the ranks' slots stay in their caches.
constexpr int64_t kSlotBytes = 256 << 10;
/// Bytes from one rank to another that the receiver hasn't taken yet. A power of two, because its counters wrap around.
constexpr int64_t kRingBytes = 1 << 20;

/// What a rank is calling or sending, to be compared with what the others expect.
struct Call {
  int32_t kind = 0, dtype = 0;
  int64_t bytes = 0;
  bool operator==(const Call&) const = default;
};
Call call_of(c10d::OpType kind, const at::Tensor& tensor);

/// Messages from one rank to another.
struct Ring {
  alignas(64) Signal written;
  alignas(64) Signal taken;
  alignas(64) std::byte bytes[kRingBytes];
};

/// Shared by ranks of this machine, and freed when the last of them has ended, however it ends. Pages that nobody has
/// written to take no memory.
class Region {
 public:
  /// Collective. Null, on every rank, when one of them cannot map the memory of the first, or watch the others: as in a
  /// container that forbids it. Errors: PeerError when a rank is lost.
  static std::unique_ptr<Region> meet(c10d::Store& store, int rank, int size, std::chrono::milliseconds timeout);
  ~Region();
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }

  /// What a rank offers in this turn. A rank has two slots, used alternately, because it may begin the next turn while
  /// others still read what it offered in this one. A turn has at least one step().
  std::byte* slot(int rank) const { return slot(rank, turn_); }
  std::byte* own_slot() const { return slot(rank_); }
  void next_turn() { turn_ = 1 - turn_; }
  Ring& ring(int from, int to) const;

  /// The next step of a collective: shows the others this rank's `call`, waits until all have come to the same step,
  /// and compares. Errors: PeerError when a rank is lost or late, or calls something else.
  void step(const Call& call);

  /// Waits until rank `peer` has raised `signal`. Errors: PeerError when it is lost or late.
  void wait(Signal& signal, uint32_t target, int peer, const std::atomic<bool>* give_up = nullptr) const;

 private:
  struct Line;
  struct Peer {
    FileDescriptor process;  // none for ranks that are threads of this process
    bool ended;              // before it could be watched
  };
  /// Maps `memory`; unmapped if that fails.
  Region(int memory, int rank, int size, std::chrono::milliseconds timeout);
  static int64_t slots_begin(int size);
  static int64_t bytes(int size);
  Line& line(int rank) const;
  std::byte* slot(int rank, int turn) const;
  void watch_peers();
  bool is_gone(int peer) const;

  int rank_, size_, spins_, turn_ = 0;
  std::chrono::milliseconds timeout_;
  std::byte* memory_ = nullptr;
  std::vector<Peer> peers_;
};

}  // namespace trainer::dist::shm
