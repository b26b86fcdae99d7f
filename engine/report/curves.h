// The curves of a report.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/report/run_folder.h"

namespace trainer::report {

struct Point {
  int64_t step;
  double value;
};

struct Curve {
  std::string name;
  size_t run = 0;          // the run it belongs to
  bool is_second = false;  // drawn dashed, in its run's color
  std::vector<Point> points;
};

/// Curves of one quantity, over updates.
struct Chart {
  std::string title, unit;
  std::vector<Curve> curves;
  bool is_stacked = false;  // the curves are parts of a whole; they have the same steps
};

/// Counts of training samples by length, of one run.
struct Histogram {
  std::string title;
  std::vector<LengthBar> bars;
};

/// At most this many points of a curve are drawn; see thinned().
constexpr size_t kMostPoints = 2000;

/// The charts of `runs`, without those that no run has values for.
std::vector<Chart> charts_of(const std::vector<RunFolder>& runs);

std::vector<Histogram> histograms_of(const RunFolder& run);

/// At most `most` (at least 2) of `points`: the smallest and the greatest value of each stretch, so that no spike is
/// lost.
std::vector<Point> thinned(const std::vector<Point>& points, size_t most);

}  // namespace trainer::report
