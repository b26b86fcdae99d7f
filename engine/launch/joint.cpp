#include "engine/launch/joint.h"

#include <algorithm>
#include <csignal>

#include "engine/base/errors.h"
#include "engine/launch/meeting.h"

namespace trainer::launch {

void serve_until(Machines& machines, SignalQueue& signals, int more, const std::function<bool()>& done,
                 Clock::duration look_again) {
  for (;;) {
    machines.serve();
    for (Machine& machine : machines.others()) {
      if (machine.inbox.empty() && !machine.lost.empty() && !machine.ended) throw LostBeforeStart(machine);
    }
    if (done()) return;
    std::vector<pollfd> events;
    machines.add_events(events);
    if (more >= 0) events.push_back({more, POLLIN, 0});
    const Clock::time_point next = machines.next_deadline().value_or(Clock::time_point::max());
    wait_for(std::move(events), std::min(next, Clock::now() + look_again), signals);
  }
}

std::vector<LinkMessage> collect(LinkOp op, Machines& machines, SignalQueue& signals) {
  std::vector<LinkMessage> messages;
  for (Machine& machine : machines.others()) {
    serve_until(machines, signals, -1, [&] { return !machine.inbox.empty(); });
    if (machine.inbox.front().op == LinkOp::kStop)
      throw StoppedBeforeStart{static_cast<int>(machine.inbox.front().number) == SIGINT ? SIGINT : SIGTERM};
    if (machine.inbox.front().op != op) throw PeerError("{} broke the protocol", machine.name);
    messages.push_back(std::move(machine.inbox.front()));
    machine.inbox.pop_front();
  }
  return messages;
}

LinkMessage hear_host(std::initializer_list<LinkOp> ops, Machines& machines, SignalQueue& signals) {
  Machine& leader = machines.numbered(0);
  serve_until(machines, signals, -1, [&] { return !leader.inbox.empty(); });
  LinkMessage message = std::move(leader.inbox.front());
  leader.inbox.pop_front();
  if (message.op == LinkOp::kEnd) throw_ending(message);
  if (std::find(ops.begin(), ops.end(), message.op) == ops.end()) throw PeerError("{} broke the protocol", leader.name);
  return message;
}

}  // namespace trainer::launch
