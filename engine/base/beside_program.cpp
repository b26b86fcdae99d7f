#include "engine/base/beside_program.h"

#include <system_error>
#include <utility>

namespace trainer {
namespace {

std::filesystem::path& chosen_folder() {
  static std::filesystem::path folder;
  return folder;
}

}  // namespace

std::filesystem::path this_program() {
  std::error_code ignored;  // on failure the path is that of a missing file
  return std::filesystem::read_symlink("/proc/self/exe", ignored);
}

std::filesystem::path beside_program(const char* name) {
  return (chosen_folder().empty() ? this_program().parent_path() : chosen_folder()) / name;
}

void set_programs_folder(std::filesystem::path folder) {
  chosen_folder() = std::move(folder);
}

}  // namespace trainer
