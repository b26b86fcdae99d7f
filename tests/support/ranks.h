#pragma once

#include <functional>

#include "engine/dist/comm.h"

namespace trainer::testing {

/// Runs `body` on `count` ranks that communicate in shared memory, each in its own thread. An exception on any rank
/// fails the test. `share_memory` false: like ranks on different machines, they don't share their weights.
void run_ranks(int count, const std::function<void(dist::Comm&)>& body, bool share_memory = true);
/// The same over Gloo.
void run_gloo_ranks(int count, const std::function<void(dist::Comm&)>& body);

}  // namespace trainer::testing
