// The programs that a command becomes: `trainer-worker` has everything that needs tensors, `trainer-prepare` reads data
// and tokenizers without libtorch.
#pragma once

#include <string>

#include "engine/cli/command.h"
#include "engine/config/plan/plan.h"

namespace trainer::cli {

/// Path of trainer-worker, next to this program, or of the program that kWorkerVariable names. Errors: MachineError when
/// it isn't there.
std::string worker_path();

/// The same of trainer-prepare.
std::string prepare_path();

/// Replaces this process with the worker; `plan` is passed on when the command needs one. Returns only by throwing
/// MachineError.
[[noreturn]] void become_worker(const Arguments& arguments, const config::Plan* plan = nullptr);
/// The same for another program.
[[noreturn]] void become_program(const std::string& path, const Arguments& arguments, const config::Plan* plan);

}  // namespace trainer::cli
