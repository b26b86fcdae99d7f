#include "engine/report/chart_panels.h"

#include <algorithm>

#include <fmt/format.h>

#include "engine/report/embedded.h"
#include "engine/report/html.h"

namespace trainer::report {
namespace {

bool is_positive(const Chart& chart) {
  return std::all_of(chart.curves.begin(), chart.curves.end(), [](const Curve& curve) {
    return std::all_of(curve.points.begin(), curve.points.end(), [](const Point& point) { return point.value > 0; });
  });
}

/// Where a run was saved and resumed; drawn into the curves of a page of one run.
nlohmann::json marks_of(const RunFolder& run) {
  nlohmann::json marks = nlohmann::json::array();
  for (const Record& record : run.records)
    if (const auto event = record.words.find("event"); event != record.words.end() && record.step > 0)
      marks.push_back({{"step", record.step}, {"event", event->second}});
  return marks;
}

}  // namespace

std::string chart_panels(const std::vector<Chart>& charts) {
  if (chart_library().empty())
    return "<p>The curves are missing because trainer was built without Chart.js (tools/setup.sh installs it).</p>\n";
  std::string text;
  for (size_t i = 0; i < charts.size(); ++i) {
    const std::string logarithmic =
        is_positive(charts[i]) ? fmt::format("<button id=\"log-{}\" aria-pressed=\"false\">log</button>", i) : "";
    text += fmt::format(
        "<div class=\"chart\"><header><h3>{}</h3>{}</header><div class=\"area\"><canvas id=\"chart-{}\" role=\"img\" "
        "aria-label=\"{}\"></canvas></div></div>\n",
        escaped(charts[i].title), logarithmic, i, escaped(charts[i].title));
  }
  return fmt::format("<div class=\"charts\">\n{}</div>\n", text);
}

/// Explains the marks that the curves of one run have.
std::string legend_of_marks(const RunFolder& run) {
  const bool any = std::any_of(run.records.begin(), run.records.end(),
                               [](const Record& record) { return record.words.contains("event") && record.step > 0; });
  if (!any || chart_library().empty()) return "";
  return "<p class=\"quiet\"><span class=\"mark saved\">&#9650;</span> checkpoint saved &nbsp; <span class=\"mark "
         "failed-save\">&#9650;</span> save failed &nbsp; <span class=\"mark resumed\">&#9482;</span> resumed</p>\n";
}

std::string histogram_panels(const std::vector<Histogram>& histograms) {
  if (histograms.empty() || chart_library().empty()) return "";
  std::string text;
  for (size_t i = 0; i < histograms.size(); ++i)
    text += fmt::format(
        "<div class=\"chart\"><header><h3>{0}</h3></header><div class=\"area\"><canvas id=\"histogram-{1}\" "
        "role=\"img\" aria-label=\"{0}\"></canvas></div></div>\n",
        escaped(histograms[i].title), i);
  return fmt::format("<div class=\"charts\">\n{}</div>\n", text);
}

std::string script_data(const std::vector<RunFolder>& runs, const std::vector<Chart>& charts,
                        const std::vector<Histogram>& histograms) {
  nlohmann::json list = nlohmann::json::array();
  for (const Chart& chart : charts) {
    nlohmann::json curves = nlohmann::json::array();
    for (const Curve& curve : chart.curves) {
      nlohmann::json points = nlohmann::json::array();
      for (const Point& point : curve.points) points.push_back({point.step, point.value});
      curves.push_back({{"name", curve.name}, {"run", curve.run}, {"is_second", curve.is_second}, {"points", points}});
    }
    list.push_back(
        {{"title", chart.title}, {"unit", chart.unit}, {"is_stacked", chart.is_stacked}, {"curves", curves}});
  }
  nlohmann::json lengths = nlohmann::json::array();
  for (const Histogram& histogram : histograms) {
    nlohmann::json labels = nlohmann::json::array(), counts = nlohmann::json::array();
    for (const LengthBar& bar : histogram.bars) {
      labels.push_back(bar.from == bar.to ? fmt::format("{}", bar.from) : fmt::format("{}–{}", bar.from, bar.to));
      counts.push_back(bar.samples);
    }
    lengths.push_back({{"title", histogram.title}, {"labels", labels}, {"counts", counts}});
  }
  return script_json({{"runs", runs.size()},
                      {"charts", list},
                      {"histograms", lengths},
                      {"marks", runs.size() == 1 ? marks_of(runs.front()) : nlohmann::json::array()}});
}

}  // namespace trainer::report
