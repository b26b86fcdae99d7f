// How the machines of a run find each other: see [Note Several machines].
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "engine/launch/introduction.h"
#include "engine/launch/machines.h"
#include "engine/launch/place.h"
#include "engine/launch/signals.h"

namespace trainer::launch {

struct Appointment {
  Place place;
  std::string host;  // main_process_ip
  int port = 0;
  std::chrono::milliseconds patience{600'000};  // for all machines to come
  std::chrono::milliseconds silence{10'000};    // of a machine that is there, before it counts as lost
  std::string secret;                           // "": none
};

/// torch's, and Accelerate's, port where none is given.
inline constexpr int kDefaultPort = 29500;

/// Thrown when somebody asked to stop before the ranks were started.
struct StoppedBeforeStart {
  int signal;
};

/// The protocol between machines; other versions of it are refused.
inline constexpr const char* kProtocol = "trainer machines 1";
inline constexpr std::size_t kNonceBytes = 32;

/// Machine 0 listens on `host`, the others connect to it, again and again until they reach it; who waits for whom is
/// said on standard error. Returns when all are there and have proved that they know the secret.
/// Errors: PeerError when one doesn't come in time, has another secret or another build; ConfigError with all
/// differences of their configurations, on every machine; MachineError when the host can't listen.
Machines meet(const Appointment& appointment, const Introduction& own, SignalQueue& signals);

/// Waits for one of `events`, for a signal, or until `until`. Errors: StoppedBeforeStart.
void wait_for(std::vector<pollfd> events, Clock::time_point until, SignalQueue& signals);

/// Throws what the host said when it ended the run before its start. For messages of kEnd.
[[noreturn]] void throw_ending(const LinkMessage& message);

}  // namespace trainer::launch
