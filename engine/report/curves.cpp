#include "engine/report/curves.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

namespace trainer::report {
namespace {

constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;

/// One line of a chart: a key of metrics.jsonl.
struct Source {
  const char* key;
  const char* name;
  double scale = 1;
};

struct Drawing {
  const char* title;
  const char* unit;
  std::vector<Source> sources;
};

const std::vector<Drawing>& drawings() {
  static const std::vector<Drawing> all{
      {"Loss", "", {{"loss", "training"}, {"eval_loss", "evaluation"}}},
      {"Learning rate", "", {{"learning_rate", "learning rate"}}},
      {"Gradient norm", "", {{"grad_norm", "gradient norm"}}},
      {"Throughput", "tokens/s", {{"tokens_per_second", "tokens/s"}}},
      {"Time of an update", "s", {{"step_seconds", "update"}, {"data_wait_seconds", "waiting for data"}}},
      {"Memory of the largest rank",
       "GiB",
       {{"memory_bytes", "resident", 1 / kGiB}, {"tensor_bytes", "tensors", 1 / kGiB}}},
      {"Efficiency of batches", "", {{"efficiency", "share"}}},
      {"Loss scale", "", {{"loss_scale", "loss scale"}}},
  };
  return all;
}

Curve curve_of(const RunFolder& run, const Source& source) {
  Curve curve;
  for (const Record& record : run.records) {
    if (record.is_event()) continue;
    if (const auto found = record.numbers.find(source.key); found != record.numbers.end())
      curve.points.push_back({record.step, found->second * source.scale});
  }
  curve.points = thinned(curve.points, kMostPoints);
  return curve;
}

void add_chart(const std::vector<RunFolder>& runs, const Drawing& drawing, std::vector<Chart>& charts) {
  Chart chart{drawing.title, drawing.unit, {}};
  for (size_t i = 0; i < runs.size(); ++i)
    for (const Source& source : drawing.sources) {
      Curve curve = curve_of(runs[i], source);
      if (curve.points.empty()) continue;
      curve.name = runs.size() > 1 ? fmt::format("{}: {}", runs[i].name, source.name) : source.name;
      curve.run = i;
      curve.is_second = &source != &drawing.sources.front();
      chart.curves.push_back(std::move(curve));
    }
  if (!chart.curves.empty()) charts.push_back(std::move(chart));
}

}  // namespace

std::vector<Point> thinned(const std::vector<Point>& points, size_t most) {
  if (points.size() <= most) return points;
  std::vector<Point> kept;
  const size_t stretches = most / 2;
  const auto lower = [](const Point& a, const Point& b) { return a.value < b.value; };
  for (size_t i = 0; i < stretches; ++i) {
    const auto begin = points.begin() + static_cast<int64_t>(i * points.size() / stretches),
               end = points.begin() + static_cast<int64_t>((i + 1) * points.size() / stretches);
    auto [first, second] = std::minmax_element(begin, end, lower);
    if (second < first) std::swap(first, second);
    kept.push_back(*first);
    if (second != first) kept.push_back(*second);
  }
  return kept;
}

std::vector<Chart> charts_of(const std::vector<RunFolder>& runs) {
  std::set<std::string> measured;  // metrics of evaluations
  for (const RunFolder& run : runs)
    for (const Record& record : run.records)
      for (const auto& [name, value] : record.numbers)
        if (name.starts_with("eval_") && name != "eval_loss") measured.insert(name);
  std::vector<Chart> charts;
  for (const Drawing& drawing : drawings()) {
    add_chart(runs, drawing, charts);
    if (&drawing != &drawings().front()) continue;
    for (const std::string& name : measured) {
      const std::string title = "Evaluation: " + name.substr(5);
      add_chart(runs, {title.c_str(), "", {{name.c_str(), name.c_str()}}}, charts);
    }
  }
  return charts;
}

}  // namespace trainer::report
