// Evaluations during and after training.
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "engine/base/log.h"
#include "engine/base/screen.h"
#include "engine/base/terminal_text.h"
#include "engine/train/evaluation_request.h"
#include "engine/train/trainer.h"

namespace trainer::train {

bool Trainer::evaluates_at(const Milestones::Position& position) const {
  return !validation().empty() && progress_.step != total_steps_ &&
         milestones_.evaluates(position);  // finish() evaluates
}

bool Trainer::see_evaluation() {
  const bool is_best = early_stopping_.see(measured_);
  progress_.evaluations = early_stopping_.state();
  if (early_stopping_.stops() && is_rank_zero())
    log::info("stopping after update {}: {}", progress_.step, early_stopping_.text());
  return is_best;
}

void Trainer::evaluate(bool at_end) {
  report_(progress_.step, "evaluating");
  saver_.wait_for_copy();
  model_->average_replicas({});
  const config::EvaluationConfig& options = config_.evaluation;
  const auto request =
      evaluation_request(config_, inputs_, at_end && options.generate, [this](const std::string& activity) {
        if (reporter_) reporter_->progress().set_activity(activity);
      });
  const evaluation::Result result = evaluation::evaluate(*model_, request);
  for (const auto& [name, value] : result.values)
    if (std::isfinite(value)) measured_[name] = value;
  const bool is_new = std::exchange(evaluated_, progress_.step) != progress_.step;  // not after an early stop
  if (!reporter_) return;
  if (is_new)
    reporter_->report(
        metrics::EvaluationRecord{progress_.step, batches_->updates().epochs_at(progress_.consumed), result.values});
  if (!at_end || result.predictions.empty()) return;
  reporter_->progress().finish();
  if (options.generate)
    evaluation::write_predictions(std::filesystem::path(config_.output_dir) / "predictions.jsonl", result.predictions);
  const bool scored = result.values.count("eval_accuracy") != 0;
  const auto shown = std::min<size_t>(result.predictions.size(), options.show_predictions);
  screen::print("\n{}", evaluation::prediction_table({result.predictions.begin(), result.predictions.begin() + shown},
                                                     terminal_width(STDOUT_FILENO), scored));
  if (!scored) return;
  const data::MajorityClass majority = data::majority_class(validation());
  screen::print("\naccuracy {:.1f} % on {} held-out samples\nalways answering '{}' would score {:.1f} %\n",
                100 * result.values.at("eval_accuracy"), result.predictions.size(), majority.label,
                100 * majority.share);
}

}  // namespace trainer::train
