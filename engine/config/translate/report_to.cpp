// logging.report_to: what it means.
#include <algorithm>

#include "engine/config/machine/started_rank.h"
#include "engine/config/trackers.h"
#include "engine/config/translate/translate.h"
#include "engine/config/translate/translation.h"

namespace trainer::config {
namespace {

const std::string kReportTo = "logging.report_to";

}  // namespace

void translate_report_to(Draft& draft) {
  std::vector<std::string>& targets = draft.config.logging.report_to;
  Translation translation(draft);
  for (const std::string& name : targets)
    if (const std::string why = why_not_tracked(name); !why.empty())
      translation.no_effect({kReportTo, Node::scalar(name), draft.mark(kReportTo)}, why);
  std::erase_if(targets, [](const std::string& name) { return name == "none" || !why_not_tracked(name).empty(); });
  if (std::erase(targets, "all") == 0) return;
  const auto add = [&](const char* name) {
    if (std::find(targets.begin(), targets.end(), name) == targets.end()) targets.emplace_back(name);
  };
  add("tensorboard");
  if (!environment_value("MLFLOW_TRACKING_URI").empty()) add("mlflow");
}

}  // namespace trainer::config
