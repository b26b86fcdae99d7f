#include "engine/train/stragglers.h"

#include <algorithm>

namespace trainer::train {
namespace {

/// The lower median.
double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

void push(std::deque<double>& window, double value) {
  window.push_back(value);
  if (window.size() > Stragglers::kWindow) window.pop_front();
}

}  // namespace

Stragglers::Stragglers(int64_t ranks, int64_t stages)
    : stage_size_(static_cast<size_t>(ranks / stages)), ranks_(static_cast<size_t>(ranks)) {}

std::vector<Stragglers::News> Stragglers::see(const std::vector<double>& seconds) {
  std::vector<News> all;
  if (stage_size_ < 2) return all;
  for (size_t rank = 0; rank < ranks_.size(); ++rank) {
    const size_t first = rank / stage_size_ * stage_size_;
    std::vector<double> others;
    for (size_t other = first; other < first + stage_size_; ++other)
      if (other != rank) others.push_back(seconds[other]);
    const double usual = std::max(median(std::move(others)), 1e-6);
    push(ranks_[rank].factors, seconds[rank] / usual);
    push(ranks_[rank].lost, seconds[rank] - usual);
    if (const auto news = judge(static_cast<int>(rank))) all.push_back(*news);
  }
  return all;
}

std::optional<Stragglers::News> Stragglers::judge(int number) {
  Rank& rank = ranks_[static_cast<size_t>(number)];
  if (rank.factors.size() < kWindow) return std::nullopt;
  const double factor = median({rank.factors.begin(), rank.factors.end()});
  const double lost = median({rank.lost.begin(), rank.lost.end()});
  if (rank.reported > 0 && (factor < kFastAgain || lost < kLeastSeconds / 2)) {
    rank.reported = rank.reported_lost = 0;
    return News{number, factor, true};
  }
  // Both must be worse: when the others have little to do, the factor alone varies with them.
  if (factor < std::max(kSlow, kSlow * rank.reported) || lost < std::max(kLeastSeconds, kSlow * rank.reported_lost))
    return std::nullopt;
  rank.reported = factor;
  rank.reported_lost = lost;
  return News{number, factor, false};
}

}  // namespace trainer::train
