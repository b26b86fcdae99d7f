// The newest values of a run, as metrics for Prometheus.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "engine/metrics/prometheus_page.h"

namespace trainer::metrics {

/// Reads the lines that are written to metrics.jsonl, and keeps the newest value of each key. A restart repeats
/// updates: totals don't go back then, so that Prometheus counts no update twice.
class LatestValues {
 public:
  /// A line of metrics.jsonl. Ignores keys that it doesn't know, and lines that aren't JSON objects.
  void take(std::string_view line);

  /// Adds a metric for each value; before the first line there is none.
  void add_to(PrometheusPage& page) const;

 private:
  std::map<std::string, double> values_;  // by the keys of metrics.jsonl
  int64_t diverged_ = 0;
};

}  // namespace trainer::metrics
