// Where our programs and libraries are.
#pragma once

#include <filesystem>

namespace trainer {

/// Names the program that runs in place of trainer-worker: one of its own that adds to it (engine/worker/program.h).
inline constexpr const char* kWorkerVariable = "TRAINER_WORKER";

/// The path of the running program.
std::filesystem::path this_program();
/// The file `name` in the folder of the running program, which holds our programs and libraries; the file doesn't need
/// to exist.
std::filesystem::path beside_program(const char* name);
/// From now on, beside_program() looks in `folder`.
void set_programs_folder(std::filesystem::path folder);

}  // namespace trainer
