// Whether the ranks of all machines start from the same model and data.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "engine/config/plan.h"
#include "engine/dist/comm.h"
#include "engine/train/build.h"

namespace trainer::train {

/// What a rank has read, by name: the shapes of its model, samples of its weights and of its data, each in a short text
/// that is another where they are. Cheap: of each weight a few values, and some samples of the data.
std::vector<std::pair<std::string, std::string>> marks_of(const config::Plan& plan, const Setup& setup);

/// Collective. Errors: InputError, on all ranks, that names what a rank has otherwise than rank 0.
void check_same_inputs(const config::Plan& plan, const Setup& setup, dist::Comm& comm);

}  // namespace trainer::train
