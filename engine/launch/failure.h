// The failures of a run's ranks, and which of them was the cause.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trainer::launch {

/// One rank's failure, as the rank reported it or as its exit status shows it.
struct Failure {
  int rank = -1;      // -1: a machine was lost
  int64_t step = -1;  // -1: before the first one
  std::string phase{};
  int code = 0;  // the exit code of the run if this is the cause
  std::string message{};
  std::string machine{};  // the rank's machine, when there are several
};

/// The failure that a process's wait status shows; a code of 0 means that the process did not fail. `done`: it had
/// reported the end of the run. `unreadable_file`: the mapped file that it may have ended for; "": none.
Failure failure_of_status(int status, bool done, const std::string& unreadable_file = "");

/// "SIGKILL" for 9.
std::string signal_name(int signal);

/// The failures in the order they became known.
class Failures {
 public:
  void add(Failure failure) { failures_.push_back(std::move(failure)); }
  bool empty() const { return failures_.empty(); }

  /// The first failure other than a lost peer: ranks that lose a peer often report it before the peer's death is seen.
  /// When all are lost peers: a lost machine, else the first failure. Requires at least one failure.
  const Failure& cause() const;

  /// True when several ranks failed with the cause's message: it is about something they share, such as a file.
  bool is_shared() const;

 private:
  std::vector<Failure> failures_;
};

}  // namespace trainer::launch
