// Terms, failures and outcomes as messages between machines.
#pragma once

#include "engine/base/link_protocol.h"
#include "engine/launch/failure.h"
#include "engine/launch/outcome.h"
#include "engine/launch/terms.h"

namespace trainer::launch {

LinkMessage to_message(const Terms& terms);
/// Errors: PeerError when the message holds no terms.
Terms read_terms(const LinkMessage& message);

LinkMessage to_message(const Failure& failure);
/// `machine` names the sender. Missing fields are empty.
Failure read_failure(const LinkMessage& message, const std::string& machine);

LinkMessage to_message(const Outcome& outcome);
Outcome read_outcome(const LinkMessage& message);

}  // namespace trainer::launch
