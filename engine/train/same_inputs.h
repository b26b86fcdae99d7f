// Checks that the ranks of all machines start from the same model and data.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "engine/config/plan/plan.h"
#include "engine/dist/comm.h"
#include "engine/train/build.h"

namespace trainer::train {

/// Fingerprints of what a rank has read, by name: its model's shapes, its weights and its data. Cheap: they cover a few
/// values of each weight and some samples of the data.
std::vector<std::pair<std::string, std::string>> marks_of(const config::Plan& plan, const Setup& setup);

/// Collective. Errors: InputError, on all ranks, that lists where a rank differs from rank 0.
void check_same_inputs(const config::Plan& plan, const Setup& setup, dist::Comm& comm);

}  // namespace trainer::train
