// Finds ranks that slow down all others: those that wait least in collectives.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

namespace trainer::train {

/// Compares, update by update, the seconds that ranks with the same work spend on it, without the time they wait for
/// each other. All ranks see the same numbers and reach the same conclusions.
class Stragglers {
 public:
  static constexpr size_t kWindow = 20;       // updates
  static constexpr double kSlow = 1.5;        // times the median of the others, in at least half of the window
  static constexpr double kFastAgain = 1.25;  // below this factor the rank is no longer slow
  static constexpr double kLeastSeconds = .02;  // per update; a rank that loses less isn't reported

  /// A change to report about a rank.
  struct News {
    int rank = 0;
    double factor = 0;  // its seconds divided by the median of the others', over the window
    bool over = false;  // it is no longer slow
  };

  /// The ranks of each pipeline stage have the same work; stages are consecutive blocks of ranks.
  Stragglers(int64_t ranks, int64_t stages);

  /// Adds an update in which rank r worked for `seconds[r]`. Returns the ranks that have become slow, slower than last
  /// reported by kSlow (in seconds too), or fast again.
  std::vector<News> see(const std::vector<double>& seconds);

 private:
  struct Rank {
    std::deque<double> factors, lost;  // of the last updates: times the others' median, and seconds beyond it
    double reported = 0, reported_lost = 0;  // last reported factor and seconds lost; 0: it is not slow
  };

  std::optional<News> judge(int rank);

  size_t stage_size_;
  std::vector<Rank> ranks_;
};

}  // namespace trainer::train
