#include "engine/launch/machines.h"

#include <algorithm>

#include "engine/base/errors.h"

namespace trainer::launch {
namespace {

constexpr std::chrono::milliseconds kPartFor{2000};

}  // namespace

Machine& Machines::numbered(int machine) {
  auto found = std::find_if(others_.begin(), others_.end(), [&](const Machine& m) { return m.number == machine; });
  require(found != others_.end(), "there is no connection to machine {}", machine);
  return *found;
}

void Machines::add_events(std::vector<pollfd>& events) const {
  if (door_ != nullptr) door_->add_events(events);
  for (const Machine& machine : others_) {
    if (!machine.line.is_open()) continue;
    const bool writes = machine.line.has_unsent();
    events.push_back({machine.line.fd(), static_cast<short>(writes ? POLLIN | POLLOUT : POLLIN), 0});
  }
}

void Machines::serve() {
  if (door_ != nullptr) door_->serve();
  const Clock::time_point now = Clock::now();
  const bool pings = now >= next_ping_;
  if (pings) next_ping_ = now + kPingEvery;
  for (Machine& machine : others_) {
    read(machine);
    if (!machine.line.is_open()) continue;
    if (pings) machine.line.send({.op = LinkOp::kPing});
    machine.line.flush();
    if (now - machine.heard > silence_) {
      machine.lost = fmt::format("it was silent for {:g} s", std::chrono::duration<double>(silence_).count());
      machine.line.close();
    }
  }
}

void Machines::read(Machine& machine) const {
  try {
    while (auto message = machine.line.next()) {
      machine.heard = Clock::now();
      if (message->op != LinkOp::kPing && message->op != LinkOp::kPrepared)
        machine.inbox.push_back(std::move(*message));
    }
    if (!machine.line.is_open() && machine.lost.empty()) machine.lost = machine.line.why_closed();
  } catch (const PeerError& error) {
    machine.line.close();
    machine.lost = error.what();
  }
}

std::optional<Clock::time_point> Machines::next_deadline() const {
  const bool alone =
      std::none_of(others_.begin(), others_.end(), [](const Machine& machine) { return machine.line.is_open(); });
  std::optional<Clock::time_point> next = alone ? std::nullopt : std::optional(next_ping_);
  if (door_ != nullptr) next = std::min(next.value_or(door_->next_deadline()), door_->next_deadline());
  return next;
}

void Machines::send_all(const LinkMessage& message) {
  for (Machine& machine : others_) machine.line.send(message);
}

void Machines::part(const LinkMessage& last) {
  if (door_ != nullptr) door_->attempt_has_ended();
  std::vector<MachineLine*> lines;
  for (Machine& machine : others_) {
    machine.ended = true;
    machine.line.send(last);
    lines.push_back(&machine.line);
  }
  hang_up(lines);
}

void hang_up(const std::vector<MachineLine*>& lines) {
  const Clock::time_point end = Clock::now() + kPartFor;
  for (MachineLine* line : lines) line->end();
  for (MachineLine* line : lines) {
    while (line->is_open() && Clock::now() < end) {
      pollfd event{line->fd(), static_cast<short>(line->has_unsent() ? POLLIN | POLLOUT : POLLIN), 0};
      poll(&event, 1, 100);
      line->end();
      try {
        while (line->next()) {
        }
      } catch (const PeerError&) {  // no longer matters
      }
    }
    line->close();
  }
}

}  // namespace trainer::launch
