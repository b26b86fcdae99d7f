#include "engine/metrics/reporter.h"

#include <algorithm>

namespace trainer::metrics {

Reporter::Reporter(const config::LoggingConfig& logging, const std::filesystem::path& output_dir, int64_t resume_step,
                   int64_t total_steps)
    : log_(output_dir / "metrics.jsonl", resume_step, resume_step == total_steps), progress_(resume_step, total_steps) {
  const auto& targets = logging.report_to;
  if (std::find(targets.begin(), targets.end(), "tensorboard") != targets.end())
    events_.emplace(output_dir / "tensorboard", resume_step);
}

}  // namespace trainer::metrics
