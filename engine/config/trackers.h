// The trackers that transformers and Accelerate can report to.
#pragma once

#include <string>
#include <vector>

namespace trainer::config {

/// Names that logging.report_to accepts without effect, so that files of these programs can be used as they are.
std::vector<std::string> trackers_elsewhere();
/// Why a run doesn't report to one of them; "" for any other name.
std::string why_not_tracked(const std::string& name);

}  // namespace trainer::config
