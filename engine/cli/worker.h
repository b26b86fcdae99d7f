// The program `trainer-worker`, which has what needs tensors or a tokenizer.
#pragma once

#include <string>

#include "engine/cli/command.h"
#include "engine/config/plan.h"

namespace trainer::cli {

/// The number of a file descriptor with the plan's text, in the worker's environment.
inline constexpr const char* kPlanVariable = "TRAINER_PLAN_FD";

/// Where it is: beside this program. Errors: MachineError when it isn't.
std::string worker_path();

/// Becomes the worker with these arguments; `plan` is handed over where the command needs one. Returns only by throwing
/// MachineError.
[[noreturn]] void become_worker(const Arguments& arguments, const config::Plan* plan = nullptr);

}  // namespace trainer::cli
