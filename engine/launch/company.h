// A run on several machines, on this machine's side: Note [Several machines].
#pragma once

#include <functional>

#include "engine/launch/attempt_loop.h"

namespace trainer::launch {

/// Returns finish(the outcome), which is called while signals are still queued and the others still reach this machine.
/// Errors: those of Leader::gather().
int run_in_company(const Run& run, const std::function<int(const Outcome&)>& finish);

}  // namespace trainer::launch
