// The program `trainer` as a function, called by main.cpp and the tests.
#pragma once

#include "engine/cli/command.h"

namespace trainer::cli {

/// Runs the command named by the first argument and returns the exit code. Reports every error on standard error.
int run(const Arguments& arguments);

/// "trainer 1.0 (libtorch …)": the version and what this build was made with.
std::string version_text();

}  // namespace trainer::cli
