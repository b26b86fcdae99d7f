// The token caches of this machine, as `trainer cache` lists and removes them.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace trainer::data {

struct CacheEntry {
  std::string name;                              // of its folder
  int64_t bytes = 0, samples = -1, tokens = -1;  // -1: it is incomplete or damaged
  std::filesystem::file_time_type used{};        // a run last opened it, or began to write it
};

/// The caches in `folder`, the most recently used first. Incomplete ones, which a killed run left, are among them.
/// Errors: InputError when the folder can't be read; none if it doesn't exist.
std::vector<CacheEntry> list_caches(const std::filesystem::path& folder);

/// What to keep.
struct CacheLimits {
  std::optional<std::chrono::hours> age{};  // since the last use
  std::optional<int64_t> bytes{};           // of all that is kept: the least recently used go first
};

/// The entries that exceed the limits. One that was used in the last hour is kept: a run that is starting may need it.
std::vector<CacheEntry> beyond(const std::vector<CacheEntry>& entries, const CacheLimits& limits,
                               std::filesystem::file_time_type now);

/// Removes a cache, unless a run is writing it: then false. Runs that have it open keep what they have. Errors:
/// MachineError.
bool remove_cache(const std::filesystem::path& folder, const CacheEntry& entry);

}  // namespace trainer::data
