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

enum class Kind {
  kCurves,
  kParts,   // of one run: parts of a whole
  kRanks,   // of one run: lists with a value of each rank
  kSpread,  // of one run with many ranks: smallest, median and largest
};

struct Drawing {
  const char* title;
  const char* unit;
  std::vector<Source> sources;
  Kind kind = Kind::kCurves;
};

constexpr const char* kLargestRank = "Memory of the largest rank";

const std::vector<Drawing>& drawings() {
  static const std::vector<Drawing> all{
      {"Loss", "", {{"loss", "training"}, {"eval_loss", "evaluation"}}},
      {"Rewards", "", {{"rewards/chosen", "chosen"}, {"rewards/rejected", "rejected"}, {"rewards/margins", "margin"}}},
      {"Pairs whose chosen reply has the higher reward", "%", {{"rewards/accuracies", "training", 100}}},
      {"Learning rate", "", {{"learning_rate", "learning rate"}}},
      {"Gradient norm", "", {{"grad_norm", "gradient norm"}}},
      {"Throughput", "tokens/s", {{"tokens_per_second", "tokens/s"}}},
      {"Share of the measured matmul peak", "%", {{"peak_share", "share", 100}}},
      {"Time of an update", "s", {{"step_seconds", "update"}, {"data_wait_seconds", "waiting for data"}}},
      {"Time of an update by phase",
       "s",
       {{"forward_seconds", "forward"},
        {"backward_seconds", "backward"},
        {"exchange_seconds", "exchange"},
        {"clipping_seconds", "clipping"},
        {"optimizer_seconds", "optimizer"},
        {"data_wait_seconds", "waiting for data"},
        {"other_seconds", "other"}},
       Kind::kParts},
      {kLargestRank, "GiB", {{"memory_bytes", "resident", 1 / kGiB}, {"tensor_bytes", "tensors", 1 / kGiB}}},
      {"Resident memory by rank", "GiB", {{"rank_memory_bytes", "rank", 1 / kGiB}}, Kind::kRanks},
      {"Tensors by rank", "GiB", {{"rank_tensor_bytes", "rank", 1 / kGiB}}, Kind::kRanks},
      {"Resident memory of the ranks",
       "GiB",
       {{"memory_bytes_min", "smallest", 1 / kGiB},
        {"memory_bytes_median", "median", 1 / kGiB},
        {"memory_bytes", "largest", 1 / kGiB}},
       Kind::kSpread},
      {"Tensors of the ranks",
       "GiB",
       {{"tensor_bytes_min", "smallest", 1 / kGiB},
        {"tensor_bytes_median", "median", 1 / kGiB},
        {"tensor_bytes", "largest", 1 / kGiB}},
       Kind::kSpread},
      {"Efficiency of batches", "", {{"efficiency", "share"}}},
      {"Loss scale", "", {{"loss_scale", "loss scale"}}},
  };
  return all;
}

/// Every stride-th of `points`, so that curves with the same steps keep the same ones.
std::vector<Point> every_few(const std::vector<Point>& points) {
  const size_t stride = points.size() / kMostPoints + 1;
  std::vector<Point> kept;
  for (size_t i = 0; i < points.size(); i += stride) kept.push_back(points[i]);
  return kept;
}

std::vector<Point> points_of(const RunFolder& run, const Source& source) {
  std::vector<Point> points;
  for (const Record& record : run.records) {
    if (record.is_event()) continue;
    if (const auto found = record.numbers.find(source.key); found != record.numbers.end())
      points.push_back({record.step, found->second * source.scale});
  }
  return points;
}

/// A curve for each rank; none for a single one.
std::vector<Curve> curves_of_ranks(const RunFolder& run, const Source& source) {
  std::vector<Curve> curves;
  for (const Record& record : run.records) {
    const auto found = record.lists.find(source.key);
    if (record.is_event() || found == record.lists.end() || found->second.size() < 2) continue;
    while (curves.size() < found->second.size()) {
      curves.emplace_back();
      curves.back().name = fmt::format("{} {}", source.name, curves.size() - 1);
    }
    for (size_t rank = 0; rank < found->second.size(); ++rank)
      curves[rank].points.push_back({record.step, found->second[rank] * source.scale});
  }
  for (Curve& curve : curves) curve.points = thinned(curve.points, kMostPoints);
  return curves;
}

/// The curves of `run`; none unless it has values for the first source.
std::vector<Curve> curves_of(const RunFolder& run, const Drawing& drawing) {
  std::vector<Curve> curves;
  for (const Source& source : drawing.sources) {
    const std::vector<Point> points = points_of(run, source);
    if (points.empty() && (curves.empty() && drawing.kind != Kind::kCurves)) return {};
    if (points.empty()) continue;
    curves.push_back({.name = source.name,
                      .is_second = &source != &drawing.sources.front(),
                      .points = drawing.kind == Kind::kParts ? every_few(points) : thinned(points, kMostPoints)});
  }
  return curves;
}

void add_chart(const std::vector<RunFolder>& runs, const Drawing& drawing, std::vector<Chart>& charts) {
  if (runs.size() > 1 && drawing.kind != Kind::kCurves) return;
  Chart chart{drawing.title, drawing.unit, {}, drawing.kind == Kind::kParts};
  for (size_t i = 0; i < runs.size(); ++i)
    for (Curve& curve : drawing.kind == Kind::kRanks ? curves_of_ranks(runs[i], drawing.sources.front())
                                                     : curves_of(runs[i], drawing)) {
      if (runs.size() > 1) curve.name = fmt::format("{}: {}", runs[i].name, curve.name);
      curve.run = i;
      chart.curves.push_back(std::move(curve));
    }
  if (chart.curves.empty()) return;
  if (drawing.kind == Kind::kRanks || drawing.kind == Kind::kSpread)  // they have the largest rank, too
    std::erase_if(charts, [](const Chart& other) { return other.title == kLargestRank; });
  charts.push_back(std::move(chart));
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

std::vector<Histogram> histograms_of(const RunFolder& run) {
  std::vector<Histogram> all;
  for (const auto& [name, bars] : run.start.lengths) all.push_back({fmt::format("Lengths: {}", name), bars});
  return all;
}

}  // namespace trainer::report
