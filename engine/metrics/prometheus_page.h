// Prometheus' text format, version 0.0.4.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace trainer::metrics {

enum class PrometheusKind { kCounter, kGauge };

/// A page of metrics as Prometheus scrapes it.
/// Source: "Exposition formats" and "Metric and label naming" of Prometheus' documentation.
class PrometheusPage {
 public:
  static constexpr const char* kContentType = "text/plain; version=0.0.4; charset=utf-8";
  using Labels = std::vector<std::pair<std::string, std::string>>;

  /// Begins the next metric. Its samples follow.
  void begin(std::string_view name, PrometheusKind kind, std::string_view help);
  /// Adds a sample to the current metric. Non-finite values are written as NaN, +Inf and -Inf.
  void add(double value, const Labels& labels = {});
  /// A metric with a single sample.
  void add(std::string_view name, PrometheusKind kind, std::string_view help, double value);

  const std::string& text() const { return text_; }

 private:
  std::string name_, text_;
};

/// `text` with characters that a metric's name can't have replaced by '_'.
std::string prometheus_name(std::string_view text);

}  // namespace trainer::metrics
