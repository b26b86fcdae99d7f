#include "engine/base/huge_pages.h"

#include <cstdlib>
#include <string>

namespace trainer {

void ask_for_huge_pages() {
  constexpr const char* kVariable = "GLIBC_TUNABLES";
  const char* const given = std::getenv(kVariable);
  std::string tunables = given != nullptr ? given : "";
  if (tunables.find("glibc.malloc.hugetlb") != std::string::npos) return;
  if (!tunables.empty()) tunables += ':';
  setenv(kVariable, (tunables + "glibc.malloc.hugetlb=1").c_str(), /*overwrite=*/1);
}

}  // namespace trainer
