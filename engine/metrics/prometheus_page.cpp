#include "engine/metrics/prometheus_page.h"

#include <cmath>

#include <fmt/format.h>

namespace trainer::metrics {
namespace {

/// Backslashes and line breaks escaped; in a label's value, quotes too.
std::string escaped(std::string_view text, bool is_label) {
  std::string out;
  for (const char c : text) {
    if (c == '\\' || (is_label && c == '"')) out += '\\';
    if (c == '\n')
      out += "\\n";
    else
      out += c;
  }
  return out;
}

std::string number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  return fmt::format("{}", value);
}

}  // namespace

void PrometheusPage::begin(std::string_view name, PrometheusKind kind, std::string_view help) {
  name_ = name;
  text_ += fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, escaped(help, false), name,
                       kind == PrometheusKind::kCounter ? "counter" : "gauge");
}

void PrometheusPage::add(double value, const Labels& labels) {
  std::string list;
  for (const auto& [label, text] : labels)
    list += fmt::format("{}{}=\"{}\"", list.empty() ? "" : ",", label, escaped(text, true));
  text_ += fmt::format("{}{} {}\n", name_, list.empty() ? "" : "{" + list + "}", number(value));
}

void PrometheusPage::add(std::string_view name, PrometheusKind kind, std::string_view help, double value) {
  begin(name, kind, help);
  add(value);
}

std::string prometheus_name(std::string_view text) {
  std::string name;
  for (const char c : text) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
    const bool digit = c >= '0' && c <= '9';
    if (digit && name.empty()) name += '_';
    name += letter || digit ? c : '_';
  }
  return name;
}

}  // namespace trainer::metrics
