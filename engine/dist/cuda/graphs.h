#pragma once

#include <memory>

#include "engine/dist/graph.h"

namespace trainer::dist::cuda {

/// Records on the current device.
std::unique_ptr<GraphRecorder> graph_recorder();

}  // namespace trainer::dist::cuda
