// The program `trainer` as a function: the thin main.cpp and the tests call it.
#pragma once

#include "engine/cli/command.h"

namespace trainer::cli {

/// Runs the command named by the first argument and returns the exit code. Every error is told here, on standard error.
int run(const Arguments& arguments);

}  // namespace trainer::cli
