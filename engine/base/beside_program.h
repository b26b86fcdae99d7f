#pragma once

#include <filesystem>

namespace trainer {

/// The file `name` in the folder of the running program, where our programs and libraries lie together; it need not
/// exist.
std::filesystem::path beside_program(const char* name);

}  // namespace trainer
