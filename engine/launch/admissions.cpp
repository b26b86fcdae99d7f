#include "engine/launch/admissions.h"

#include <algorithm>

namespace trainer::launch {
namespace {

constexpr std::chrono::minutes kRemembered{10};
constexpr std::chrono::milliseconds kLongest{60'000};
constexpr int64_t kAtOnce = 2, kMostDoublings = 16;

}  // namespace

void Admissions::note(int machine, Clock::time_point now) {
  std::vector<Clock::time_point>& times = joined_[machine];
  std::erase_if(times, [&](Clock::time_point time) { return now - time > kRemembered; });
  times.push_back(now);
}

std::chrono::milliseconds Admissions::wait_of(int machine, Clock::time_point now) const {
  const auto found = joined_.find(machine);
  if (found == joined_.end()) return std::chrono::milliseconds(0);
  const int64_t recent =
      std::count_if(found->second.begin(), found->second.end(), [&](auto time) { return now - time <= kRemembered; });
  if (recent < kAtOnce) return std::chrono::milliseconds(0);
  return std::min(first_ * (int64_t{1} << std::min(recent - kAtOnce, kMostDoublings)), std::max(kLongest, first_));
}

}  // namespace trainer::launch
