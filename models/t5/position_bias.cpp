#include "models/t5/position_bias.h"

#include <algorithm>
#include <cmath>

namespace trainer::models::t5 {

int64_t position_bucket(int64_t distance, bool bidirectional, int64_t buckets, int64_t max_distance) {
  int64_t first = 0;
  if (bidirectional) {
    buckets /= 2;
    first = distance > 0 ? buckets : 0;
    distance = std::abs(distance);
  } else {
    distance = -std::min<int64_t>(distance, 0);
  }
  const int64_t exact = buckets / 2;
  if (distance < exact) return first + distance;
  const float ratio = std::log(static_cast<float>(distance) / static_cast<float>(exact)) /
                      static_cast<float>(std::log(static_cast<double>(max_distance) / static_cast<double>(exact)));
  const auto logarithmic = exact + static_cast<int64_t>(ratio * static_cast<float>(buckets - exact));
  return first + std::min(logarithmic, buckets - 1);
}

std::vector<int64_t> position_buckets(int64_t length, bool bidirectional, int64_t buckets, int64_t max_distance) {
  std::vector<int64_t> all;
  for (int64_t distance = -(length - 1); distance < length; ++distance)
    all.push_back(position_bucket(distance, bidirectional, buckets, max_distance));
  return all;
}

}  // namespace trainer::models::t5
