#include "engine/launch/pace.h"

#include <algorithm>
#include <vector>

namespace trainer::launch {
namespace {

constexpr size_t kFewest = 5, kMost = 100;  // updates

}  // namespace

void Pace::see(const RankState& before, const RankState& now, double seconds) {
  if (before.updates()) seconds_ += seconds;
  const int64_t made = now.step - before.step;  // several, when one takes less than `seconds`
  if (made <= 0) return;
  if (before.step >= 0) {
    const auto counted = std::min(static_cast<size_t>(is_first_ ? made - 1 : made), kMost);
    updates_.insert(updates_.end(), counted, seconds_ / static_cast<double>(made));
    if (updates_.size() > kMost) updates_.erase(updates_.begin(), updates_.end() - kMost);
  }
  is_first_ = before.step < 0;
  seconds_ = 0;
}

std::optional<double> Pace::median() const {
  if (updates_.size() < kFewest) return std::nullopt;
  std::vector<double> sorted(updates_.begin(), updates_.end());
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  return *middle;
}

}  // namespace trainer::launch
