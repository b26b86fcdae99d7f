#include "engine/metrics/latest_values.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include <nlohmann/json.hpp>

#include "engine/base/bounded_json.h"

namespace trainer::metrics {
namespace {

constexpr PrometheusKind kGauge = PrometheusKind::kGauge, kCounter = PrometheusKind::kCounter;

struct Known {
  const char* key;  // in metrics.jsonl
  const char* name;
  PrometheusKind kind;
  const char* help;
};

constexpr Known kKnown[] = {
    {"step", "trainer_step", kGauge, "Updates done, as of the last logged one."},
    {"epoch", "trainer_epoch", kGauge, "Passes over the training data, with fraction."},
    {"loss", "trainer_loss", kGauge, "Training loss, the mean since the previous logged update."},
    {"grad_norm", "trainer_grad_norm", kGauge, "Norm of the gradients before clipping."},
    {"learning_rate", "trainer_learning_rate", kGauge, "Learning rate of the last logged update."},
    {"tokens", "trainer_tokens_total", kCounter, "Tokens trained on, without padding."},
    {"samples", "trainer_samples_total", kCounter, "Samples trained on."},
    {"tokens_per_second", "trainer_tokens_per_second", kGauge, "Tokens per second since the previous logged update."},
    {"step_seconds", "trainer_step_seconds", kGauge, "Mean duration of an update."},
    {"data_wait_seconds", "trainer_data_wait_seconds", kGauge, "Mean time that an update waited for its batch."},
    {"memory_bytes", "trainer_peak_resident_memory_bytes", kGauge, "Peak resident memory of the largest rank."},
    {"tensor_bytes", "trainer_peak_tensor_memory_bytes", kGauge, "Peak size of all tensors of the largest rank."},
    {"peak_share", "trainer_matmul_peak_share_ratio", kGauge,
     "Model FLOPs per second, as a part of the measured speed of matrix products."},
    {"loss_scale", "trainer_loss_scale", kGauge, "Loss scale of fp16."},
    {"skipped_updates", "trainer_overflowed_updates_total", kCounter,
     "Updates skipped because gradients overflowed fp16."},
};

/// Members of a metric that has a label for the phase.
constexpr const char* kPhases[] = {"forward", "backward", "exchange", "clipping", "optimizer", "other"};

bool is_of_phase(const std::string& key) {
  return std::any_of(std::begin(kPhases), std::end(kPhases),
                     [&](const char* phase) { return key == std::string(phase) + "_seconds"; });
}

const Known* find(const std::string& key) {
  const auto* const found =
      std::find_if(std::begin(kKnown), std::end(kKnown), [&](const Known& known) { return key == known.key; });
  return found == std::end(kKnown) ? nullptr : found;
}

/// Of pairs (StepRecord).
bool is_of_pairs(const std::string& key) {
  return key.starts_with("rewards/");
}

/// The values of an evaluation have names that depend on the metric.
bool is_of_evaluation(const std::string& key) {
  return key.starts_with("eval_") && !key.ends_with("_text");
}

/// A number of metrics.jsonl; a non-finite one is null there, and text in another key.
double number(const nlohmann::json& line, const std::string& key) {
  if (const nlohmann::json& value = line.at(key); value.is_number()) return value.get<double>();
  const std::string text = line.contains(key + "_text") && line.at(key + "_text").is_string()
                               ? line.at(key + "_text").get<std::string>()
                               : "";
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  return text == "inf" ? kInfinity : text == "-inf" ? -kInfinity : std::nan("");
}

}  // namespace

void LatestValues::take(std::string_view line) {
  const nlohmann::json json = bounded_json_or_none(line);
  if (!json.is_object() || json.contains("straggler") || json.contains("event")) return;
  if (json.contains("diverged")) {  // an update that was not applied
    ++diverged_;
    return;
  }
  for (const auto& [key, value] : json.items()) {
    const Known* const known = find(key);
    if (known == nullptr && !is_of_evaluation(key) && !is_of_phase(key) && !is_of_pairs(key)) continue;
    const double newest = number(json, key);
    const auto [entry, is_new] = values_.emplace(key, newest);
    const bool is_total = known != nullptr && known->kind == kCounter;
    if (!is_new) entry->second = is_total ? std::max(entry->second, newest) : newest;
  }
}

void LatestValues::add_to(PrometheusPage& page) const {
  if (values_.empty() && diverged_ == 0) return;
  for (const Known& known : kKnown)
    if (const auto found = values_.find(known.key); found != values_.end())
      page.add(known.name, known.kind, known.help, found->second);
  bool begun = false;
  for (const char* const phase : kPhases)
    if (const auto found = values_.find(std::string(phase) + "_seconds"); found != values_.end()) {
      if (!std::exchange(begun, true))
        page.begin("trainer_step_phase_seconds", kGauge, "Mean time of an update in each phase.");
      page.add(found->second, {{"phase", phase}});
    }
  for (const auto& [key, value] : values_)
    if (is_of_evaluation(key))
      page.add("trainer_" + prometheus_name(key), kGauge, key + " of the last evaluation.", value);
    else if (is_of_pairs(key))
      page.add("trainer_" + prometheus_name(key), kGauge, key + ", the mean since the previous logged update.", value);
  page.add("trainer_diverged_updates_total", kCounter, "Updates that diverged and were not applied.",
           static_cast<double>(diverged_));
}

}  // namespace trainer::metrics
