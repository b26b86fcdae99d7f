#include "engine/report/report.h"

#include <algorithm>
#include <ctime>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "engine/base/files.h"
#include "engine/base/human.h"
#include "engine/report/chart_panels.h"
#include "engine/report/confusion.h"
#include "engine/report/curves.h"
#include "engine/report/differences.h"
#include "engine/report/embedded.h"
#include "engine/report/figures.h"
#include "engine/report/html.h"

namespace trainer::report {
namespace {

constexpr size_t kShownPredictions = 200;
constexpr int kReloadSeconds = 5;

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

std::string ending_text(const RunFolder& run, bool is_live) {
  const std::string& cause = run.ending.cause;
  if (cause == "done") return "";
  if (cause.empty())
    return paragraph(
        run.name + (is_live ? fmt::format(": not finished; this page is loaded again every {} seconds", kReloadSeconds)
                            : ": not finished when this page was made"),
        "quiet");
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

std::string unit_table(const RunFolder& run) {
  Rows rows;
  for (const StartFacts::Unit& unit : run.start.units)
    rows.push_back({{unit.name.empty() ? "the root" : unit.name, "key"},
                    {unit.class_name},
                    {human_count(static_cast<double>(unit.parameters))}});
  return rows.empty() ? "" : table({"unit", "class", "parameters"}, rows);
}

/// "2026-11-25 12:16:40 UTC"; "" for a record without a time.
std::string time_of(const Record& event) {
  const auto found = event.numbers.find("time");
  if (found == event.numbers.end()) return "";
  const auto seconds = static_cast<std::time_t>(found->second);
  std::tm parts{};
  char text[64];
  if (gmtime_r(&seconds, &parts) == nullptr) return "";
  return {text, std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", &parts)};
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
    if (record.is_event())
      rows.push_back({{fmt::format("{}", record.step)}, {event_text(record)}, {time_of(record), "quiet"}});
  return rows.empty() ? "" : table({"update", "event", "time"}, rows);
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

std::string of_one(const RunFolder& run, const std::vector<Histogram>& histograms) {
  return section("Training samples", histogram_panels(histograms)) + section("Events", events(run)) +
         section("FSDP units", unit_table(run)) + section("Classes", confusion_table(run)) +
         section("Predictions", predictions(run)) + section("Configuration", configuration(run));
}

}  // namespace

std::string report_page(const std::vector<RunFolder>& runs, bool is_live) {
  const std::vector<Chart> charts = charts_of(runs);
  const bool one = runs.size() == 1;
  const std::vector<Histogram> histograms = one ? histograms_of(runs.front()) : std::vector<Histogram>{};
  is_live =
      is_live && std::any_of(runs.begin(), runs.end(), [](const RunFolder& run) { return run.ending.cause.empty(); });
  std::string endings;
  for (const RunFolder& run : runs) endings += ending_text(run, is_live);
  std::string page = fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
      "script-src "
      "'unsafe-inline'\">\n{4}<title>{0}</title>\n<style>\n{1}</style>\n</head>\n<body>\n<h1>{0}</h1>\n{2}{3}",
      escaped(names_of(runs)), page_style(), endings, one ? facts(runs.front()) : figure_table(runs),
      is_live ? fmt::format("<meta http-equiv=\"refresh\" content=\"{}\">\n", kReloadSeconds) : "");
  page += section("Curves", (one ? legend_of_marks(runs.front()) : "") + chart_panels(charts));
  page += one ? of_one(runs.front(), histograms) : section("Options that differ", difference_table(runs));
  page +=
      "<footer>made by trainer from metrics.jsonl, config.resolved.yaml, predictions.jsonl and outcome.json</footer>\n";
  if (!chart_library().empty())
    page += fmt::format(
        "<script type=\"application/json\" id=\"data\">{}</script>\n<script>\n{}\n</script>\n<script>\n{}</script>\n",
        script_data(runs, charts, histograms), chart_library(), page_script());
  return page + "</body>\n</html>\n";
}

void write_report(const std::filesystem::path& output_dir) {
  publish_file(output_dir / "report.html", report_page({read_run(output_dir)}));
}

}  // namespace trainer::report
