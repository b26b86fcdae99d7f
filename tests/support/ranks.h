#pragma once

#include <functional>

#include "engine/dist/comm.h"

namespace trainer::testing {

/// Runs `body` on `count` ranks that communicate over Gloo, each in its own thread. An exception on any rank fails the
/// test. `share_memory` false: behaves like ranks on different machines.
void run_ranks(int count, const std::function<void(dist::Comm&)>& body, bool share_memory = true);

}  // namespace trainer::testing
