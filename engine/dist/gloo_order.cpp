#include "engine/dist/gloo_order.h"

#include <algorithm>

#include "engine/base/round_up.h"

namespace trainer::dist {

int64_t gloo_part(int64_t count, int64_t width, int ranks) {
  constexpr int64_t kSegment = 1 << 20;
  if (ranks <= 2) return count;
  const int64_t bytes = count * width;
  const int64_t segments = round_up(std::max((bytes + kSegment - 1) / kSegment, int64_t{2} * ranks), ranks);
  return segments / ranks * round_up((bytes + segments - 1) / segments, width) / width;
}

}  // namespace trainer::dist
