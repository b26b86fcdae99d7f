#include "engine/base/mpi_slot.h"

#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "engine/base/errors.h"
#include "engine/base/files.h"

namespace trainer {
namespace {

constexpr std::chrono::seconds kPatience{60};

void wait_for(const std::filesystem::path& slot) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (!std::filesystem::exists(slot)) {
    if (std::chrono::steady_clock::now() > deadline)
      throw MachineError("mpirun provided no slot for this rank within {} s ({})", kPatience.count(), slot.string());
    usleep(2000);
  }
}

}  // namespace

void take_mpi_slot(int rank) {
  const char* const folder = std::getenv(kSlotsVariable);
  if (folder == nullptr) return;
  const auto slot = std::filesystem::path(folder) / std::to_string(rank);
  wait_for(slot);
  const std::string entries = read_file(slot.string());
  for (size_t begin = 0; begin < entries.size();) {
    const std::string entry = entries.c_str() + begin;
    begin += entry.size() + 1;
    const size_t equals = entry.find('=');
    const std::string name = entry.substr(0, equals);
    if (equals != std::string::npos && (name.starts_with("OMPI_") || name.starts_with("PMIX_")))
      setenv(name.c_str(), entry.c_str() + equals + 1, /*overwrite=*/1);
  }
  unsetenv(kSlotsVariable);
}

}  // namespace trainer
