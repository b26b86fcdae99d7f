// The metrics of evaluations. A configuration names them; `eval_` precedes a name in a run's records.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace trainer {

struct Metric {
  const char* name;
  bool lower_is_better;
  bool compares;  // the predicted text, or class, with the label
};

inline constexpr Metric kMetrics[] = {
    {"loss", true, false},
    {"perplexity", true, false},
    {"accuracy", false, true},
    {"exact_match", false, true},
    {"precision_macro", false, true},
    {"recall_macro", false, true},
    {"f1_macro", false, true},
    {"f1_micro", false, true},
    {"f1_weighted", false, true},
    {"matthews_correlation", false, true},
    {"rouge1", false, true},
    {"rouge2", false, true},
    {"rougeL", false, true},
    {"bleu", false, true},
    // Of pairs, with TRL's names; always measured for these.
    {"rewards/chosen", false, false},
    {"rewards/rejected", true, false},
    {"rewards/accuracies", false, false},
    {"rewards/margins", false, false},
};

constexpr bool is_reward(std::string_view name) {
  return name.starts_with("rewards/");
}

/// Null when there is none of this name.
constexpr const Metric* find_metric(std::string_view name) {
  for (const Metric& metric : kMetrics)
    if (name == metric.name) return &metric;
  return nullptr;
}

inline bool lower_is_better(std::string_view name) {
  const Metric* const metric = find_metric(name);
  return metric != nullptr && metric->lower_is_better;
}

inline std::vector<std::string> metric_names() {
  std::vector<std::string> names;
  for (const Metric& metric : kMetrics) names.emplace_back(metric.name);
  return names;
}

/// Whether one of these compares predictions with labels.
inline bool any_compares(const std::vector<std::string>& names) {
  for (const std::string& name : names)
    if (const Metric* const metric = find_metric(name); metric != nullptr && metric->compares) return true;
  return false;
}

}  // namespace trainer
