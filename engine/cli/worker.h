// The program `trainer-worker`, which has what needs tensors or a tokenizer.
#pragma once

#include <string>

#include "engine/cli/command.h"
#include "engine/config/plan.h"

namespace trainer::cli {

/// Where it is: beside this program. Errors: MachineError when it isn't.
std::string worker_path();

/// The program that tokenises before ranks start; likewise.
std::string prepare_path();

/// Becomes the worker with these arguments; `plan` is handed over where the command needs one. Returns only by throwing
/// MachineError.
[[noreturn]] void become_worker(const Arguments& arguments, const config::Plan* plan = nullptr);
/// The same for another program.
[[noreturn]] void become_program(const std::string& path, const Arguments& arguments, const config::Plan* plan);

}  // namespace trainer::cli
