// How the machines of a run find each other: see [Note Several machines].
#pragma once

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "engine/launch/introduction.h"
#include "engine/launch/machines.h"
#include "engine/launch/outcome.h"
#include "engine/launch/place.h"
#include "engine/launch/signals.h"

namespace trainer::launch {

struct Appointment {
  Place place;
  std::string host;  // main_process_ip
  int port = 0;
  std::vector<int> sizes{};                     // with how many machines the run can go on, in rising order
  std::chrono::milliseconds patience{600'000};  // for all machines to come
  std::chrono::milliseconds last_call{5'000};   // for more to come, once there are enough
  std::chrono::milliseconds silence{10'000};    // of a machine that is there, before it counts as lost
  std::string secret;                           // "": none
  std::filesystem::path folder{};               // the output folder, which all must see
};

/// torch's, and Accelerate's, port where none is given.
inline constexpr int kDefaultPort = 29500;

/// Thrown when somebody asked to stop before the ranks were started.
struct StoppedBeforeStart {
  int signal;
};

/// Thrown when machine 0 has told how a life, or the run, ended in which this machine did not take part.
struct EndedBefore {
  Outcome outcome;
};

/// The protocol between machines; other versions of it are refused.
inline constexpr const char* kProtocol = "trainer machines 2";
inline constexpr std::size_t kNonceBytes = 32;

/// Waits for one of `events`, for a signal, or until `until`. Errors: StoppedBeforeStart.
void wait_for(std::vector<pollfd> events, Clock::time_point until, SignalQueue& signals);

/// Throws what the host said when it ended the run before its start, or the life. For messages of kEnd.
[[noreturn]] void throw_ending(const LinkMessage& message);

}  // namespace trainer::launch
