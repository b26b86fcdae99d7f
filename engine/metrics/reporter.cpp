#include "engine/metrics/reporter.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace trainer::metrics {

Reporter::Reporter(const config::LoggingConfig& logging, const std::filesystem::path& output_dir, int64_t resume_step,
                   int64_t total_steps, Forward forward)
    : log_(output_dir / "metrics.jsonl", resume_step, resume_step == total_steps),
      forward_(std::move(forward)),
      progress_(resume_step, total_steps) {
  const auto& targets = logging.report_to;
  if (std::find(targets.begin(), targets.end(), "tensorboard") != targets.end())
    events_.emplace(output_dir / "tensorboard", resume_step);
}

void Reporter::report(const DivergenceRecord& record) {
  log(record);
  const std::string what =
      record.back_to < 0 ? "the update is skipped" : fmt::format("back to the weights of step {}", record.back_to);
  progress_.print(fmt::format("step {}: diverged (loss {:g}, gradient norm {:g}, samples {} to {}): {}", record.step,
                              record.loss, record.grad_norm, record.first_sample, record.end_sample - 1, what));
}

void Reporter::report(const StragglerRecord& record) {
  log(record);
  const std::string rank = record.one_machine ? fmt::format("rank {}", record.rank)
                                              : fmt::format("rank {} on machine {}", record.rank, record.machine);
  progress_.print(record.over ? fmt::format("step {}: {} is as fast as the others again", record.step, rank)
                              : fmt::format("warning: step {}: {} slows down all other ranks: in most of the last "
                                            "updates it worked {:.1f} times as long between collectives as they did",
                                            record.step, rank, record.factor));
}

void Reporter::report(StartRecord record) {
  record.reached = log_.reached();
  log(record);
}

}  // namespace trainer::metrics
