// A leader that isn't machine 0 tells machine 0 so: Note [Votes].
#pragma once

#include <future>
#include <optional>
#include <string>
#include <vector>

#include "engine/launch/machine_line.h"
#include "engine/launch/meeting.h"
#include "engine/launch/succession.h"

namespace trainer::launch {

/// Connects to the appointed address again and again: a machine 0 that was started again without its disk waits there,
/// and knows no other address. Nothing blocks.
class Herald {
 public:
  explicit Herald(const Appointment& to) : to_(to) {}

  /// Where this machine listens, under `epoch`.
  void set_leader(LeaderPlace leader, int64_t epoch) {
    leader_ = std::move(leader);
    epoch_ = epoch;
  }

  void serve();
  void add_events(std::vector<pollfd>& events) const;

 private:
  void connect();

  const Appointment& to_;
  LeaderPlace leader_{};
  int64_t epoch_ = 0;
  std::optional<MachineLine> line_;
  std::string nonce_;
  bool told_ = false;
  Clock::time_point next_ = Clock::now(), deadline_{};
  std::future<FileDescriptor> connecting_;  // null: nothing listens there
};

}  // namespace trainer::launch
