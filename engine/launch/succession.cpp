#include "engine/launch/succession.h"

#include <cstdio>

#include <fmt/format.h>

#include "engine/base/folder_lock.h"

namespace trainer::launch {

std::string to_line(const LeaderPlace& place) {
  return fmt::format("machine {} leads at {} port {}", place.machine, place.host, place.port);
}

std::optional<LeaderPlace> leader_of(const std::filesystem::path& folder) {
  LeaderPlace place;
  char host[254] = "";
  const std::string line = line_of_holder(folder);
  if (std::sscanf(line.c_str(), "machine %d leads at %253s port %d", &place.machine, host, &place.port) != 3)
    return std::nullopt;
  place.host = host;
  const bool valid = place.machine >= 0 && place.port > 0 && place.port <= 65535;
  return valid ? std::optional(place) : std::nullopt;
}

}  // namespace trainer::launch
