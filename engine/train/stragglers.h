// Ranks that hold up all others: who waits least in collectives.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

namespace trainer::train {

/// Compares the seconds that ranks with the same work spend on it, update by update, without what they spend waiting
/// for each other. All ranks see the same numbers and come to the same conclusions.
class Stragglers {
 public:
  static constexpr size_t kWindow = 20;       // updates
  static constexpr double kSlow = 1.5;        // so many times the median of the others, in at least half of the window
  static constexpr double kFastAgain = 1.25;  // below it the rank is no longer slow
  static constexpr double kLeastSeconds = .02;  // an update; a rank that loses less holds nobody up

  /// Something to be told of a rank.
  struct News {
    int rank = 0;
    double factor = 0;  // its own seconds by the median of the others', over the window
    bool over = false;  // it is no longer slow
  };

  /// The ranks of each of `stages` of a pipeline, one stage behind the other, have the same work.
  Stragglers(int64_t ranks, int64_t stages);

  /// An update, in which rank r worked for `seconds[r]`: whatever has become slow, slower by kSlow than it was told to
  /// be (in seconds too), or fast again.
  std::vector<News> see(const std::vector<double>& seconds);

 private:
  struct Rank {
    std::deque<double> factors, lost;  // of the last updates: by the median of the others, and seconds beyond it
    double told = 0, told_lost = 0;    // what was told last, and its seconds; 0: it is not slow
  };

  std::optional<News> judge(int rank);

  size_t stage_size_;
  std::vector<Rank> ranks_;
};

}  // namespace trainer::train
