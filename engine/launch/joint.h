// How machines wait for each other between their meeting and the start of their ranks.
#pragma once

#include <functional>
#include <initializer_list>
#include <vector>

#include "engine/launch/machines.h"
#include "engine/launch/signals.h"

namespace trainer::launch {

/// Serves the connections until `done`, which is asked again after every event, of which `more` is one, and at least
/// every `look_again`. Errors: LostBeforeStart; StoppedBeforeStart.
void serve_until(Machines& machines, SignalQueue& signals, int more, const std::function<bool()>& done,
                 Clock::duration look_again = std::chrono::hours(1));

/// Leader: one message from every other machine, in the order of the machines. Errors: as above; PeerError.
std::vector<LinkMessage> collect(LinkOp op, Machines& machines, SignalQueue& signals);

/// Follower: the leader's next message, one of `ops`. Errors: as above; the leader's reason for ending the run.
LinkMessage hear_host(std::initializer_list<LinkOp> ops, Machines& machines, SignalQueue& signals);

}  // namespace trainer::launch
