// Where programs connect to machine 0: most are machines of the run, any may be a stranger.
#pragma once

#include <poll.h>

#include <optional>
#include <string>
#include <vector>

#include "engine/base/file_descriptor.h"
#include "engine/launch/address.h"
#include "engine/launch/introduction.h"
#include "engine/launch/machine_line.h"
#include "engine/launch/store.h"

namespace trainer::launch {

/// An accepted connection; a machine once it has introduced itself, which proves that it knows the secret.
struct Visitor {
  MachineLine line;
  Address from;
  Clock::time_point came = Clock::now();
  Clock::time_point heard = Clock::now();
  bool greeted = false;
  bool refused = false;
  bool prepared = false;  // ready to join at once
  std::optional<Introduction> who{};

  std::string name() const;
};

/// Listening sockets, and how many connections they may bring. Strangers, visitors that have not introduced themselves,
/// can use up neither the descriptors nor the processor: when there are too many, of one address or of all, or when
/// descriptors run short, a new connection replaces the stranger that came first. A machine needs milliseconds to
/// introduce itself, and connects again if it was replaced.
class Entrance {
 public:
  static constexpr std::size_t kMostOfOneAddress = 64;
  static constexpr std::size_t kMostStrangers = 512;  // and at most half of the descriptors

  /// Raises this process's limit of open files, as far as the system permits.
  Entrance();

  void add(FileDescriptor listener) { listeners_.push_back(std::move(listener)); }
  bool is_open() const { return !listeners_.empty(); }
  void close() { listeners_.clear(); }

  /// Nothing while no descriptor is left: the listeners would end every wait at once.
  void add_events(std::vector<pollfd>& events) const;
  /// Accepts the pending connections.
  void let_in(std::vector<Visitor>& visitors);

 private:
  enum class Accepted { kOne, kNone, kNoDescriptor };
  Accepted accept_one(const FileDescriptor& listener, std::vector<Visitor>& visitors) const;

  std::vector<FileDescriptor> listeners_;
  Clock::time_point rests_until_{};
};

}  // namespace trainer::launch
