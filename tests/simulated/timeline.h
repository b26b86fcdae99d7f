// The order in which a device may run what the host gives it. See Note [Simulated accelerator].
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace trainer::simulated {

// Note [Simulated accelerator]
// A device with CUDA's rules and without their luck. Every operator runs at once, on the CPU, in the order of the host's
// calls, so results are exact. But each stream has a vector clock: what it knows of the other streams and of the host. An
// event carries the clock of its stream; waiting for it merges the clocks. Each access to memory is noted with its stream
// and time, and an access that isn't ordered after a conflicting one, by events or by a synchronization of the host, is an
// error that names both operators and both streams: on a real device, it would be a race, whether or not it shows.
// Pinned memory of the host is watched too: the host may use it only after it has waited for the copies to it, and may
// write it only after it has waited for those from it. Values that the device copies there arrive when the host waits for
// the copy; until then, its bytes are 0xFF (NaN). Code that uses pinned memory too early without an operator finds its
// pages protected: that is an error, too, which says where the code is.

/// A point in time that something knows of each stream: the number of its operators that have completed.
using Clock = std::vector<uint64_t>;

using StreamNumber = int;
constexpr StreamNumber kHost = -1;

/// What the host may do with pinned memory.
enum class Allowed { kNothing, kReading, kAll };

/// A range of memory that an operator reads or writes.
struct Range {
  uintptr_t begin = 0, end = 0;
};

/// Thread-safe.
class Timeline {
 public:
  /// Told whenever what the host may do with the block of pinned memory at `block` changes. It is kAll at first.
  using Protect = void(uintptr_t block, Allowed allowed);
  explicit Timeline(Protect* protect = nullptr) : protect_(protect) {}

  StreamNumber add_stream(std::string name);

  /// The host gives the stream an operator. Everything that the host has waited for comes before it.
  void launch(StreamNumber stream, const std::string& what, const std::vector<Range>& reads,
              const std::vector<Range>& writes);
  Clock clock_of(StreamNumber stream);
  /// The stream, or the host, waits for an event's clock.
  void wait(StreamNumber stream, const Clock& event);
  /// Whether the host has waited for something that comes after the event.
  bool host_knows(const Clock& event);
  /// The host waits for everything on the stream.
  void synchronize(StreamNumber stream);

  /// An operator of the host uses pinned memory. If a copy may still be under way, the next launch throws the error.
  void host_uses(const std::string& what, const std::vector<Range>& reads, const std::vector<Range>& writes);
  /// Code of the host at `where` uses the byte at `address` of protected memory, with the same consequence. From now on,
  /// the host may do anything with the block, until that changes.
  void host_touches(const std::string& where, uintptr_t address, bool writes);
  /// The stream's last operator writes `bytes` to pinned memory, which the device finds at `at`. They arrive there when
  /// something that comes after it is known to need them: when the host has waited, or before an operator of the device.
  void writes_later(StreamNumber stream, const Range& to, void* at, std::vector<char> bytes);

  /// `stream` is kHost for pinned memory.
  void allocated(const Range& block, StreamNumber stream);
  /// Memory that `stream` uses too: like CUDA's allocator, doesn't reuse it before the stream is done.
  void used_on(uintptr_t block, StreamNumber stream);
  /// The block may be reused by its stream at once: an error if another stream may still use it. (libtorch itself keeps
  /// pinned memory until the copies are done.)
  void freed(uintptr_t block);
  /// Whether all uses of a freed block come before what `stream` does next. If not, and it is reused nevertheless, the
  /// next operator that uses it races with them.
  bool may_reuse(uintptr_t block, StreamNumber stream);
  /// A freed block is given back to the system, which waits for the device.
  void returned(uintptr_t block);

  /// Errors noted where nothing may throw (in destructors): one a line. The next launch throws them, too.
  std::string errors();
  void throw_errors();

 private:
  struct Access {
    Range range;
    StreamNumber stream;
    uint64_t time;
    std::string what;
    bool writes;
    bool freed = false;  // the tensor, since
  };
  struct Block {
    uintptr_t end;
    StreamNumber stream;  // whose memory it is
    std::set<StreamNumber> also_used_on;
    std::vector<Access> accesses;
    Allowed allowed = Allowed::kAll;  // pinned memory
  };

  struct Arrival {
    StreamNumber stream;
    uint64_t time;
    Range to;
    void* at;
    std::vector<char> bytes;
  };

  void wait_on_host(const Clock& clock);
  /// The block that holds the range's begin, or the end: it is in unpinned memory of the host.
  std::map<uintptr_t, Block>::iterator block_of(const Range& range);
  bool before(const Access& access, StreamNumber stream) const;
  bool host_knows(const Access& access) const;
  /// Notes the error, if the host's use of the block's range is one.
  void check_use_of_host(Block& block, const Range& range, const std::string& what, bool writes);
  void set_allowed(uintptr_t begin, Block& block, Allowed allowed);
  void protect(uintptr_t begin, Block& block);
  const Access* unfinished(const Block& block, StreamNumber stream) const;
  std::string text(const Access& access) const;
  void access(const Range& range, StreamNumber stream, const std::string& what, bool writes);

  std::mutex mutex_;
  Protect* const protect_;
  std::vector<std::string> names_;
  std::vector<std::string> last_;  // operator of each stream
  std::vector<Clock> clocks_;      // by stream
  Clock host_;
  std::map<uintptr_t, Block> blocks_;  // by address
  std::map<uintptr_t, Block> freed_;   // with the last uses of each
  std::set<uintptr_t> protected_;      // blocks of pinned memory
  std::vector<Arrival> arrivals_;      // in order
  std::string errors_;
};

}  // namespace trainer::simulated
