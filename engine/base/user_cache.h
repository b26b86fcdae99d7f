// The folder for what can be made again.
#pragma once

#include <cstdlib>
#include <filesystem>

namespace trainer {

/// $XDG_CACHE_HOME/trainer or ~/.cache/trainer, by the XDG Base Directory Specification: paths that aren't absolute are
/// ignored. Empty without either variable.
inline std::filesystem::path user_cache() {
  const char* const cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && *cache == '/') return std::filesystem::path(cache) / "trainer";
  const char* const home = std::getenv("HOME");
  return home != nullptr && *home == '/' ? std::filesystem::path(home) / ".cache" / "trainer" : std::filesystem::path();
}

}  // namespace trainer
