#include "engine/base/metrics.h"

#include <algorithm>
#include <cstdlib>

#include "engine/base/errors.h"

namespace trainer {
namespace {

constexpr std::string_view kHigher = ":higher", kLower = ":lower";

std::vector<Metric> our_metrics() {
  return {{"loss", true, false},
          {"perplexity", true, false},
          {"accuracy"},
          {"exact_match"},
          {"precision_macro"},
          {"recall_macro"},
          {"f1_macro"},
          {"f1_micro"},
          {"f1_weighted"},
          {"matthews_correlation"},
          {"rouge1"},
          {"rouge2"},
          {"rougeL"},
          {"bleu"},
          // Of pairs, with TRL's names; always measured for these.
          {"rewards/chosen", false, false},
          {"rewards/rejected", true, false},
          {"rewards/accuracies", false, false},
          {"rewards/margins", false, false}};
}

bool is_name(std::string_view text) {
  constexpr std::string_view kAllowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
  return !text.empty() && text.find_first_not_of(kAllowed) == text.npos;
}

void append(std::vector<Metric>& all, Metric metric) {
  if (!is_name(metric.name))
    throw ConfigError("'{}' can't be a metric's name: use letters, digits and underscores.", metric.name);
  for (const Metric& other : all)
    if (other.name == metric.name) throw ConfigError("there is already a metric '{}'.", metric.name);
  all.push_back(std::move(metric));
}

/// Adds what kMetricsVariable lists.
void append_listed(std::vector<Metric>& all) {
  const char* const value = std::getenv(kMetricsVariable);
  for (std::string_view rest = value != nullptr ? value : ""; !rest.empty();) {
    const std::string_view entry = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(entry.size() + 1, rest.size()));
    const bool lower = entry.ends_with(kLower);
    if (!lower && !entry.ends_with(kHigher))
      throw ConfigError("{} is '{}': expected NAME{} or NAME{}, separated by commas; a program of its own sets it.",
                        kMetricsVariable, value, kHigher, kLower);
    append(all, {std::string(entry.substr(0, entry.rfind(':'))), lower});
  }
}

std::vector<Metric>& known_metrics() {
  static std::vector<Metric> all = [] {
    std::vector<Metric> made = our_metrics();
    append_listed(made);
    return made;
  }();
  return all;
}

}  // namespace

const std::vector<Metric>& all_metrics() {
  return known_metrics();
}

void add_metric(Metric metric) {
  append(known_metrics(), std::move(metric));
}

std::string added_metrics() {
  std::string text;
  const std::vector<Metric>& all = all_metrics();
  for (size_t i = our_metrics().size(); i < all.size(); ++i)
    text += fmt::format("{}{}{}", text.empty() ? "" : ",", all[i].name, all[i].lower_is_better ? kLower : kHigher);
  return text;
}

const Metric* find_metric(std::string_view name) {
  const std::vector<Metric>& all = all_metrics();
  const auto found = std::find_if(all.begin(), all.end(), [&](const Metric& metric) { return metric.name == name; });
  return found != all.end() ? &*found : nullptr;
}

bool lower_is_better(std::string_view name) {
  const Metric* const metric = find_metric(name);
  return metric != nullptr && metric->lower_is_better;
}

std::vector<std::string> metric_names() {
  std::vector<std::string> names;
  for (const Metric& metric : all_metrics()) names.push_back(metric.name);
  return names;
}

bool any_compares(const std::vector<std::string>& names) {
  return std::any_of(names.begin(), names.end(), [](const std::string& name) {
    const Metric* const metric = find_metric(name);
    return metric != nullptr && metric->compares;
  });
}

}  // namespace trainer
