#include "engine/prepare/prepare_bar.h"

#include <fmt/format.h>

#include "engine/base/human.h"

namespace trainer::prepare {

std::string prepare_line(double part, int64_t samples, double seconds) {
  std::string line =
      fmt::format("tokenizing {:3.0f} %  {} samples", 100 * part, human_count(static_cast<double>(samples)));
  if (seconds > 0) line += fmt::format("  {} per second", human_count(static_cast<double>(samples) / seconds));
  if (part > 0 && seconds > 1) line += fmt::format("  {} left", human_seconds(seconds * (1 - part) / part));
  return line;
}

void PrepareBar::show(double part, int64_t samples) {
  if (line_.is_due()) line_.show(prepare_line(part, samples, line_.seconds()));
}

}  // namespace trainer::prepare
