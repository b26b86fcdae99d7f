// How the machines of a run find each other: see Note [Several machines].
#pragma once

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "engine/launch/introduction.h"
#include "engine/launch/machines.h"
#include "engine/launch/outcome.h"
#include "engine/launch/rank_assignment.h"
#include "engine/launch/signals.h"

namespace trainer::launch {

struct Appointment {
  RankAssignment place;
  std::string host;  // main_process_ip
  int port = 0;
  std::vector<int> sizes{};                     // the usable numbers of machines, ascending
  std::chrono::milliseconds patience{600'000};  // for all machines to connect
  std::chrono::milliseconds last_call{5'000};   // for more to connect, once there are enough
  std::chrono::milliseconds rejoin{1'000};      // of a machine that has joined twice lately: Admissions
  std::chrono::milliseconds silence{10'000};    // of a connected machine, before it counts as lost
  std::string key;                              // that the machines share: take_key(); "": none
  bool wants_no_secret = false;                 // TRAINER_SECRET_FILE=none
  std::filesystem::path folder{};               // the output folder, which machines may share
  std::string starter{};  // "srun" or "mpirun", which start each launcher once; "": one that ended may be started again

  /// The number of machines is a range.
  bool is_elastic() const { return sizes.size() > 1; }
};

/// The default port of torch and Accelerate.
inline constexpr int kDefaultPort = 29500;
/// Between two lines about a machine that is waited for.
inline constexpr std::chrono::seconds kReminderEvery{60};

/// Thrown on a request to stop before the ranks were started.
struct StoppedBeforeStart {
  int signal;
};

/// Thrown when machine 0 reports the end of the run, or of an attempt that this machine was not part of.
struct EndedBefore {
  Outcome outcome;
};

/// Waits for one of `events`, for a signal, or until `until`. Errors: StoppedBeforeStart.
void wait_for(std::vector<pollfd> events, Clock::time_point until, SignalQueue& signals);

/// Waits for `time`. Errors: StoppedBeforeStart.
void pause(Clock::duration time, SignalQueue& signals);

/// Throws the leader's reason for ending the run or attempt, given by a kEnd message.
[[noreturn]] void throw_ending(const LinkMessage& message);

}  // namespace trainer::launch
