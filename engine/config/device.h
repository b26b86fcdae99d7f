// Where a configuration trains.
#pragma once

#include "engine/config/sections.h"

namespace trainer::config {

/// Whether ranks are meant to compute on GPUs. DATA_PARALLEL says by `devices` where.
bool asks_for_gpus(const Config& config);

/// Whether they do, on this machine: a single process trains on the CPU where GPUs are asked for and none is to be had.
bool trains_on_gpus(const Config& config);

/// What a machine lacks to train so, or "": what base/gpu_library.h tells, for as many ranks as a machine has. Under
/// Gloo ranks may share a GPU.
std::string lacking_for_gpus(const Config& config);

}  // namespace trainer::config
