// The metrics of evaluations. A configuration names them; `eval_` precedes a name in a run's records.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace trainer {

struct Metric {
  std::string name;
  bool lower_is_better = false;
  bool compares = true;  // the predicted text, or class, with the label
};

/// Names the metrics that a program of its own adds, for the `trainer` that it becomes: "kappa:higher,ter:lower".
inline constexpr const char* kMetricsVariable = "TRAINER_METRICS";

/// All metrics: ours, those in kMetricsVariable, and those that this process has added.
const std::vector<Metric>& all_metrics();
/// Adds a metric; call it before configurations are read. Errors: ConfigError if its name is taken, or isn't letters,
/// digits and underscores.
void add_metric(Metric metric);
/// The metrics that aren't ours, as in kMetricsVariable.
std::string added_metrics();

constexpr bool is_reward(std::string_view name) {
  return name.starts_with("rewards/");
}

/// Null when there is none of this name.
const Metric* find_metric(std::string_view name);
bool lower_is_better(std::string_view name);
std::vector<std::string> metric_names();
/// Whether one of these compares predictions with labels.
bool any_compares(const std::vector<std::string>& names);

}  // namespace trainer
