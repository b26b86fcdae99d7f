#include "engine/base/beside_program.h"

#include <system_error>

namespace trainer {

std::filesystem::path beside_program(const char* name) {
  std::error_code ignored;  // on failure the path is that of a missing file
  return std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path() / name;
}

}  // namespace trainer
