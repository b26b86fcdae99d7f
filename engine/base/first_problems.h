#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include <fmt/format.h>

namespace trainer {

/// The first four of `problems`, each on a line of its own, and how many more there are: the end of a message.
inline std::string first_problems(const std::vector<std::string>& problems) {
  constexpr std::size_t kShown = 4;
  std::string text;
  for (std::size_t i = 0; i < std::min(problems.size(), kShown); ++i) text += "\n  " + problems[i];
  if (problems.size() > kShown) text += fmt::format(" … and {} more", problems.size() - kShown);
  return text;
}

}  // namespace trainer
