#include "engine/base/human.h"

#include <array>
#include <cmath>

#include <fmt/format.h>

namespace trainer {
namespace {

/// `value` in the largest unit that leaves at least 1, with one decimal below 10. Units are `step` apart.
template <size_t kCount>
std::string scaled(double value, double step, const std::array<const char*, kCount>& units) {
  if (!std::isfinite(value)) return "?";
  size_t unit = 0;
  // A value that rounds to 1000 (or 1024) belongs to the next unit.
  while (unit + 1 < units.size() && std::round(std::abs(value)) >= step) {
    value /= step;
    ++unit;
  }
  const bool decimal = unit > 0 && std::abs(value) < 9.95;
  return fmt::format("{:.{}f}{}", value, decimal ? 1 : 0, units[unit]);
}

}  // namespace

std::string human_count(double value) {
  return scaled(value, 1000.0, std::array{"", "k", "M", "G", "T"});
}

std::string human_bytes(int64_t bytes) {
  return scaled(static_cast<double>(bytes), 1024.0, std::array{" B", " KiB", " MiB", " GiB", " TiB"});
}

std::string human_seconds(double seconds) {
  constexpr double kMost = 1e12;
  if (!(seconds >= 0.0 && seconds < kMost)) return "?";
  if (seconds < 9.95) return fmt::format("{:.1f}s", seconds);
  const auto whole = static_cast<int64_t>(std::llround(seconds));
  if (whole < 60) return fmt::format("{}s", whole);
  if (whole < 3600) return fmt::format("{}m {:02}s", whole / 60, whole % 60);
  if (whole < 86400) return fmt::format("{}h {:02}m", whole / 3600, whole / 60 % 60);
  return fmt::format("{}d {:02}h", whole / 86400, whole / 3600 % 24);
}

}  // namespace trainer
