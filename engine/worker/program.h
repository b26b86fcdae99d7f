// The program trainer-worker, alone or as a part of another program.
#pragma once

#include <functional>
#include <string>

namespace trainer {

/// The folder of the installed programs, which the CMake package defines.
#ifndef TRAINER_PROGRAMS
#define TRAINER_PROGRAMS ""
#endif

/// The whole of a program that adds to trainer; call it from main(). `add` adds model families (models::add_family) and
/// metrics (evaluation::add_metric). The program then becomes the installed `trainer`, with the same arguments, which
/// starts this program again in place of trainer-worker. `programs`: the folder of `trainer`; the environment variable
/// TRAINER_PROGRAMS overrides it. Returns the exit code, and reports what goes wrong.
int run_with(int argc, char** argv, const std::function<void()>& add, const std::string& programs = TRAINER_PROGRAMS);

namespace worker {

/// trainer-worker itself.
int run_worker(int argc, char** argv);

}  // namespace worker
}  // namespace trainer
