#include "engine/config/trackers.h"

namespace trainer::config {
namespace {

struct Tracker {
  const char* name;
  const char* why_not;
};

constexpr Tracker kElsewhere[] = {
    {"aim", "its repository can be written by its Python library only"},
    {"azure_ml", "Azure ML is reached through MLflow: use mlflow with its tracking address"},
    {"clearml", "its server is reached by its Python library only"},
    {"codecarbon", "the run's use of energy is not measured"},
    {"comet_ml", "the format of Comet's offline archives is not documented (docs/monitoring.md)"},
    {"dagshub", "DagsHub is reached through MLflow: use mlflow with its tracking address"},
    {"dvclive", "metrics.jsonl has the numbers, and report.html the curves"},
    {"flyte", "report.html is the page that Flyte's deck would be"},
    {"kubeflow", "the job's state shows in its pods; --emit pytorchjob adds /metrics and /readyz"},
    {"neptune", "its server is reached by its Python library only"},
    {"swanlab", "its server is reached by its Python library only"},
    {"trackio", "its dashboard is written by its Python library only"},
    {"wandb", "the format of W&B's offline files is not documented (docs/monitoring.md)"},
};

}  // namespace

std::vector<std::string> trackers_elsewhere() {
  std::vector<std::string> names;
  for (const Tracker& tracker : kElsewhere) names.emplace_back(tracker.name);
  return names;
}

std::string why_not_tracked(const std::string& name) {
  for (const Tracker& tracker : kElsewhere)
    if (name == tracker.name) return tracker.why_not;
  return "";
}

}  // namespace trainer::config
