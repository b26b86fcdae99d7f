#include "engine/base/malloc_tunables.h"

#include <cstdlib>

namespace trainer {
namespace {

constexpr const char* kVariable = "GLIBC_TUNABLES";

struct Tunable {
  const char *name, *value;
};
constexpr Tunable kTunables[] = {
    {"glibc.malloc.hugetlb", "1"},
    {"glibc.malloc.mmap_threshold", "134217728"},   // larger blocks go back to the system when they are freed
    {"glibc.malloc.trim_threshold", "8589934592"},  // so much stays when the last blocks of the heap are freed
};

}  // namespace

std::string with_malloc_tunables(std::string given) {
  for (const Tunable& tunable : kTunables) {
    const std::string assigned = std::string(tunable.name) + '=';
    if (given.find(assigned) != std::string::npos) continue;
    if (!given.empty()) given += ':';
    given += assigned + tunable.value;
  }
  return given;
}

void set_malloc_tunables() {
  const char* const given = std::getenv(kVariable);
  setenv(kVariable, with_malloc_tunables(given != nullptr ? given : "").c_str(), /*overwrite=*/1);
}

}  // namespace trainer
