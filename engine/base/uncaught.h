#pragma once

#include <exception>
#include <string>

#include "engine/base/errors.h"

namespace trainer {

/// How a program ends because of an exception that reached main(): its exit code and what it prints, for safe_text().
struct Uncaught {
  ExitCode code;
  std::string text;
};

/// Memory that cannot be had, libtorch's included, is a MachineError; what is neither that nor an Error is a bug.
Uncaught describe_uncaught(const std::exception& error);

/// Prints that to `fd` and returns the exit code; screen::finish_output() reports output that was lost.
int end_uncaught(const std::exception& error, int fd);

}  // namespace trainer
