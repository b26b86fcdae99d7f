#include "engine/base/beside_program.h"

#include <system_error>

namespace trainer {

std::filesystem::path beside_program(const char* name) {
  std::error_code ignored;  // then the path is of a file that isn't there
  return std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path() / name;
}

}  // namespace trainer
