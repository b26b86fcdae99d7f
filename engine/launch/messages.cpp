#include "engine/launch/messages.h"

#include <algorithm>
#include <charconv>

#include "engine/base/errors.h"

namespace trainer::launch {
namespace {

std::string text(const LinkMessage& message, std::size_t i) {
  return i < message.strings.size() ? message.strings[i] : "";
}

int number(const std::string& text) {
  int value = -1;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

}  // namespace

LinkMessage to_message(const Terms& terms) {
  return {.op = LinkOp::kTerms,
          .code = terms.restarts,
          .number = terms.attempt,
          .strings = {std::to_string(terms.machine), std::to_string(terms.machines), terms.attempt_id,
                      terms.resumes ? "resumes" : ""}};
}

Terms read_terms(const LinkMessage& message) {
  const Terms terms{.attempt = static_cast<int>(message.number),
                    .restarts = message.code,
                    .resumes = text(message, 3) == "resumes",
                    .machine = number(text(message, 0)),
                    .machines = number(text(message, 1)),
                    .attempt_id = text(message, 2)};
  if (message.op != LinkOp::kTerms || terms.machine < 1 || terms.machine >= terms.machines || terms.attempt < 0)
    throw PeerError("malformed message: not the terms of an attempt");
  return terms;
}

LinkMessage to_message(const Failure& failure) {
  return {.op = LinkOp::kRankFails,
          .code = failure.code,
          .number = failure.step,
          .strings = {failure.message, failure.phase, std::to_string(failure.rank)}};
}

Failure read_failure(const LinkMessage& message, const std::string& machine) {
  return {.rank = number(text(message, 2)),
          .step = message.number,
          .phase = text(message, 1),
          .code = message.code > 0 ? message.code : kInternalFailure,
          .message = text(message, 0),
          .machine = machine};
}

LinkMessage to_message(const Outcome& outcome) {
  return {.op = LinkOp::kEnd,
          .code = outcome.code,
          .number = outcome.step,
          .strings = {outcome.message, outcome.phase, std::to_string(outcome.rank), outcome.machine,
                      std::to_string(outcome.restarts), outcome.again ? outcome.grows ? "grows" : "again" : ""}};
}

Outcome read_outcome(const LinkMessage& message) {
  return {.code = message.code,
          .rank = number(text(message, 2)),
          .step = message.number,
          .phase = text(message, 1),
          .message = text(message, 0),
          .machine = text(message, 3),
          .restarts = std::max(number(text(message, 4)), 0),
          .again = !text(message, 5).empty(),
          .grows = text(message, 5) == "grows"};
}

}  // namespace trainer::launch
