#pragma once

#include <filesystem>

namespace trainer {

/// The file `name` in the folder of the running program, which holds our programs and libraries; the file doesn't need
/// to exist.
std::filesystem::path beside_program(const char* name);

}  // namespace trainer
