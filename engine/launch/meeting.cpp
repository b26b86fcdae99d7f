#include "engine/launch/meeting.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "engine/base/errors.h"
#include "engine/launch/messages.h"

namespace trainer::launch {
void wait_for(std::vector<pollfd> events, Clock::time_point until, SignalQueue& signals) {
  signals.add_events(events);
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
  if (poll(events.data(), events.size(), static_cast<int>(std::clamp<int64_t>(left, 0, 1000))) < 0 && errno != EINTR)
    throw MachineError("cannot wait for the other machines: {}", std::strerror(errno));
  for (const int signal : signals.take()) {
    if (signal != SIGCHLD && signal != SIGQUIT && signal != SIGUSR2)
      throw StoppedBeforeStart{signal == SIGINT ? SIGINT : SIGTERM};
  }
}

void pause(Clock::duration time, SignalQueue& signals) {
  const Clock::time_point end = Clock::now() + time;
  while (Clock::now() < end) wait_for({}, end, signals);
}

void throw_ending(const LinkMessage& message) {
  if (Outcome outcome = read_outcome(message); outcome.again || outcome.code == kDone)
    throw EndedBefore{std::move(outcome)};
  if (message.code == kInterrupted || message.code == kStopRequested) throw StoppedBeforeStart{message.code - 128};
  const std::string text = message.strings.empty() ? "machine 0 ended the run" : message.strings.front();
  throw Error(message.code > 0 ? static_cast<ExitCode>(message.code) : kPeerFailure, text);
}

}  // namespace trainer::launch
