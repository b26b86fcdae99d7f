#include "engine/report/report.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "engine/base/files.h"
#include "engine/report/confusion.h"
#include "engine/report/curves.h"
#include "engine/report/differences.h"
#include "engine/report/embedded.h"
#include "engine/report/figures.h"
#include "engine/report/html.h"

namespace trainer::report {
namespace {

constexpr size_t kShownPredictions = 200;

using Rows = std::vector<std::vector<Cell>>;

std::string section(const std::string& title, const std::string& content) {
  return content.empty() ? "" : fmt::format("<section><h2>{}</h2>\n{}</section>\n", escaped(title), content);
}

std::string paragraph(const std::string& text, const char* style = "") {
  return fmt::format("<p class=\"{}\">{}</p>\n", style, escaped(text));
}

std::string names_of(const std::vector<RunFolder>& runs) {
  std::vector<std::string> names;
  for (const RunFolder& run : runs) names.push_back(run.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string ending_text(const RunFolder& run) {
  const std::string& cause = run.ending.cause;
  if (cause == "done") return "";
  if (cause.empty()) return paragraph(run.name + ": not finished when this page was made", "quiet");
  return paragraph(run.name + ": " + (run.ending.message.empty() ? cause : run.ending.message), "failed");
}

std::string facts(const RunFolder& run) {
  std::string text;
  for (const Figure& figure : figures_of(run))
    text += fmt::format("<div class=\"fact\"><span class=\"quiet\">{}</span><b>{}</b></div>\n", escaped(figure.name),
                        escaped(figure.value));
  return fmt::format("<div class=\"facts\">\n{}</div>\n", text);
}

/// The figures of several runs, one row for each.
std::string figure_table(const std::vector<RunFolder>& runs) {
  std::vector<std::string> headings{"run"};
  std::vector<std::vector<Figure>> figures;
  for (const RunFolder& run : runs) {
    figures.push_back(figures_of(run));
    for (const Figure& figure : figures.back())
      if (std::find(headings.begin(), headings.end(), figure.name) == headings.end()) headings.push_back(figure.name);
  }
  Rows rows;
  for (size_t i = 0; i < runs.size(); ++i) {
    rows.push_back({{runs[i].name}});
    for (size_t column = 1; column < headings.size(); ++column) {
      const auto found = std::find_if(figures[i].begin(), figures[i].end(),
                                      [&](const Figure& figure) { return figure.name == headings[column]; });
      rows.back().push_back({found == figures[i].end() ? "" : found->value});
    }
  }
  return table(headings, rows);
}

bool is_positive(const Chart& chart) {
  return std::all_of(chart.curves.begin(), chart.curves.end(), [](const Curve& curve) {
    return std::all_of(curve.points.begin(), curve.points.end(), [](const Point& point) { return point.value > 0; });
  });
}

std::string chart_panels(const std::vector<Chart>& charts) {
  if (chart_library().empty())
    return paragraph("The curves are missing because trainer was built without Chart.js (tools/setup.sh installs it).");
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

std::string confusion_table(const RunFolder& run) {
  const Confusion confusion = confusion_of(run.predictions);
  if (confusion.labels.empty()) return "";
  std::vector<std::string> headings{"label ↓ predicted →"};
  headings.insert(headings.end(), confusion.answers.begin(), confusion.answers.end());
  Rows rows;
  for (size_t i = 0; i < confusion.labels.size(); ++i) {
    rows.push_back({{confusion.labels[i]}});
    for (size_t j = 0; j < confusion.answers.size(); ++j) {
      const int64_t count = confusion.counts[i][j];
      rows.back().push_back({fmt::format("{}", count), i == j ? "right" : count > 0 ? "wrong" : "quiet"});
    }
  }
  return table(headings, rows);
}

std::string predictions(const RunFolder& run) {
  if (run.predictions.empty()) return "";
  Rows rows;
  const size_t shown = std::min(run.predictions.size(), kShownPredictions);
  for (size_t i = 0; i < shown; ++i) {
    const Prediction& one = run.predictions[i];
    rows.push_back({{one.input}, {one.prediction, one.prediction == one.label ? "right" : "wrong"}, {one.label}});
  }
  return paragraph(fmt::format("{} of {}, in the order of the data", shown, run.predictions.size()), "quiet") +
         "<button data-filters=\"predictions\" aria-pressed=\"false\">only wrong ones</button>\n"
         "<div id=\"predictions\">\n" +
         table({"input", "prediction", "label"}, rows) + "</div>\n";
}

std::string events(const RunFolder& run) {
  Rows rows;
  for (const Record& record : run.records)
    if (record.is_event()) rows.push_back({{fmt::format("{}", record.step), "number"}, {event_text(record)}});
  return rows.empty() ? "" : table({"update", "event"}, rows);
}

std::string settings_table(const std::vector<Setting>& settings, bool defaults) {
  Rows rows;
  for (const Setting& one : settings)
    if ((one.origin == "default") == defaults) rows.push_back({{one.key, "key"}, {one.value}, {one.origin, "quiet"}});
  return rows.empty() ? "" : table({"option", "value", "from"}, rows);
}

std::string configuration(const RunFolder& run) {
  const std::string defaults = settings_table(run.settings, true);
  return settings_table(run.settings, false) +
         (defaults.empty()
              ? ""
              : fmt::format("<details><summary>options with their default</summary>\n{}</details>\n", defaults));
}

std::string difference_table(const std::vector<RunFolder>& runs) {
  std::vector<std::string> headings{"option"};
  for (const RunFolder& run : runs) headings.push_back(run.name);
  Rows rows;
  for (const Difference& one : differences_of(runs)) {
    rows.push_back({{one.key, "key"}});
    for (const std::string& value : one.values) rows.back().push_back({value});
  }
  return rows.empty() ? paragraph("none") : table(headings, rows);
}

std::string script_data(const std::vector<Chart>& charts, size_t runs) {
  nlohmann::json list = nlohmann::json::array();
  for (const Chart& chart : charts) {
    nlohmann::json curves = nlohmann::json::array();
    for (const Curve& curve : chart.curves) {
      nlohmann::json points = nlohmann::json::array();
      for (const Point& point : curve.points) points.push_back({point.step, point.value});
      curves.push_back({{"name", curve.name}, {"run", curve.run}, {"is_second", curve.is_second}, {"points", points}});
    }
    list.push_back({{"title", chart.title}, {"unit", chart.unit}, {"curves", curves}});
  }
  return script_json({{"runs", runs}, {"charts", list}});
}

std::string of_one(const RunFolder& run) {
  return section("Events", events(run)) + section("Classes", confusion_table(run)) +
         section("Predictions", predictions(run)) + section("Configuration", configuration(run));
}

}  // namespace

std::string report_page(const std::vector<RunFolder>& runs) {
  const std::vector<Chart> charts = charts_of(runs);
  const bool one = runs.size() == 1;
  std::string endings;
  for (const RunFolder& run : runs) endings += ending_text(run);
  std::string page = fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
      "script-src 'unsafe-inline'\">\n<title>{0}</title>\n<style>\n{1}</style>\n</head>\n<body>\n<h1>{0}</h1>\n{2}{3}",
      escaped(names_of(runs)), page_style(), endings, one ? facts(runs.front()) : figure_table(runs));
  page += section("Curves", chart_panels(charts));
  page += one ? of_one(runs.front()) : section("Options that differ", difference_table(runs));
  page +=
      "<footer>made by trainer from metrics.jsonl, config.resolved.yaml, predictions.jsonl and outcome.json</footer>\n";
  if (!chart_library().empty())
    page += fmt::format(
        "<script type=\"application/json\" id=\"data\">{}</script>\n<script>\n{}\n</script>\n<script>\n{}</script>\n",
        script_data(charts, runs.size()), chart_library(), page_script());
  return page + "</body>\n</html>\n";
}

void write_report(const std::filesystem::path& output_dir) {
  publish_file(output_dir / "report.html", report_page({read_run(output_dir)}));
}

}  // namespace trainer::report
