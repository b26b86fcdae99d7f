// The worker as a child of this program, for commands that continue afterwards.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "engine/cli/command.h"
#include "engine/config/plan/plan.h"
#include "engine/launch/run.h"

namespace trainer::cli {

/// The worker's standard output for these arguments; nothing when it fails for any reason: only used for extras.
std::optional<std::string> ask_worker(const Arguments& arguments, const config::Plan* plan = nullptr);
/// The same of trainer-prepare.
std::optional<std::string> ask_prepare(const Arguments& arguments, const config::Plan* plan);

/// The same of this program.
std::optional<std::string> ask_trainer(const Arguments& arguments);

/// Runs the worker with its output on the screen, and returns its exit code (128+n when it died of signal n).
/// Errors: MachineError when it isn't there.
int run_worker(const Arguments& arguments, const config::Plan& plan);

/// Runs trainer-prepare on the plan and waits for it; its progress is on the screen. Then, if the ranks' GPUs have
/// `free_gpu_bytes` for each, checks that the plan fits into them. Errors: MachineError.
launch::Preparation run_prepare(const config::Plan& plan, int64_t free_gpu_bytes = 0);

}  // namespace trainer::cli
