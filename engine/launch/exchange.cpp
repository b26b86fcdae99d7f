#include "engine/launch/exchange.h"

#include "engine/base/errors.h"

namespace trainer::launch {

void Exchange::ask(int rank, const LinkMessage& request) {
  if (assignment_.is_leader()) return handle(rank, request);
  machines_.send(0, {.op = LinkOp::kCarry, .number = rank, .strings = {encode_frame(request)}});
}

void Exchange::deliver(Machine& machine, const LinkMessage& carried) {
  const int64_t rank = carried.number;
  const bool known = rank >= 0 && rank < int64_t{assignment_.ranks} * assignment_.machines;
  const int runs_on = known ? assignment_.machine_of(static_cast<int>(rank)) : -1;
  FrameReader frames;
  frames.append(carried.strings.empty() ? std::string_view() : carried.strings.front());
  std::optional<LinkMessage> message;
  try {
    message = frames.next();
  } catch (const PeerError&) {
  }
  if (!message || runs_on != (assignment_.is_leader() ? machine.number : assignment_.machine)) {
    machine.lost = "it broke the protocol";
    return machine.line.close();
  }
  if (assignment_.is_leader()) return handle(static_cast<int>(rank), *message);
  if (Line& line = ranks_.numbered(static_cast<int>(rank)).line; line.is_open()) line.send(*message);
}

void Exchange::expire(Clock::time_point now) {
  std::vector<Store::Answer> answers;
  store_.expire(now, answers);
  send(answers);
}

void Exchange::handle(int rank, const LinkMessage& request) {
  std::vector<Store::Answer> answers;
  store_.handle(rank, request, Clock::now(), answers);
  send(answers);
}

void Exchange::send(const std::vector<Store::Answer>& answers) {
  for (const auto& [rank, message] : answers) {
    if (!is_ours(rank)) {
      machines_.send(assignment_.machine_of(rank),
                     {.op = LinkOp::kCarry, .number = rank, .strings = {encode_frame(message)}});
    } else if (Line& line = ranks_.numbered(rank).line; line.is_open()) {
      line.send(message);
    }
  }
}

}  // namespace trainer::launch
