#pragma once

#include <functional>

#include "engine/dist/comm.h"

namespace trainer::testing {

/// Runs `body` as `count` ranks that talk over Gloo, each in a thread of its own. An exception of any fails the test.
/// `share_memory` false: as if they were on different machines.
void run_ranks(int count, const std::function<void(dist::Comm&)>& body, bool share_memory = true);

}  // namespace trainer::testing
