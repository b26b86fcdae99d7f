#include "engine/train/trainer.h"

#include <utility>

#include "engine/base/errors.h"
#include "engine/base/folder_lock.h"
#include "engine/base/log.h"
#include "engine/base/screen.h"
#include "engine/checkpoint/checkpoint_folder.h"
#include "engine/train/preferences/preferences.h"
#include "engine/train/save_model.h"

namespace trainer::train {

Trainer::Trainer(const config::Plan& plan, prepare::Inputs& inputs, config::LoraConfig lora,
                 std::unique_ptr<parallel::ParallelModel> model, checkpoint::FolderAccess access, Report report,
                 Published published)
    : plan_(plan),
      config_(plan.config),
      inputs_(inputs),
      lora_(std::move(lora)),
      model_(std::move(model)),
      access_(std::move(access)),
      report_(std::move(report)),
      saver_(plan, inputs, lora_, *model_, access_,
             [this, publish = std::move(published.save)](int64_t step, bool saved) {
               if (publish) publish(saved);
               if (reporter_) reporter_->report(metrics::SaveRecord{step, !saved});
             }),
      divergence_(plan.config.training),
      early_stopping_(plan.config),
      milestones_(plan.config),
      stragglers_(model_->comm().size(), model_->mesh().degrees().pipeline),
      core_sharing_(plan.config, model_->comm().device(), is_rank_zero()) {
  optimizer_ = optim::make_optimizer(config_.training, model_->logical_tensors(), model_->comm());
  if (config_.mixed_precision == config::MixedPrecision::kFp16) loss_scale_.emplace(config_.training.loss_scaling);
  if (config_.dpo) add_reference(plan_, inputs_, *model_);
  resume();
  const config::TrainingConfig& t = config_.training;
  const dist::Comm& data = model_->mesh().data();
  batches_.emplace(
      BatchStream(train(), config_, progress_.global_batch, data.rank(), data.size(), model_->comm().device()));
  total_steps_ =
      t.max_steps > 0 ? t.max_steps : progress_.step + batches_->updates().left(progress_.consumed, t.num_train_epochs);
  schedule_.emplace(t.lr_scheduler_type, t.learning_rate, t.warmup_steps, total_steps_, t.lr_scheduler_kwargs);
  if (config_.training.check_first_steps) first_steps_.emplace(*model_);
  if (is_rank_zero())
    reporter_.emplace(config_.logging, config_.output_dir, progress_.step, total_steps_, std::move(published.line));
}

bool Trainer::is_finished() const {
  return progress_.step >= total_steps_ || early_stopping_.stops();
}

// Note [Phases]
// The time by phase costs two looks at the clock for each phase. Work on a device ends after the calls that launch it,
// and waiting for it at the ends of phases would slow a run down; so only `trainer profile` times phases there.

Ending Trainer::run(std::optional<int64_t> last_step) {
  if (reporter_ && model_->comm().device().is_cpu()) phase_clock_.emplace(model_->comm().device());
  try {
    return run_updates(last_step);
  } catch (const NumericError&) {  // all ranks throw it together
    saver_.finish();
    throw;
  }
}

Ending Trainer::run_updates(std::optional<int64_t> last_step) {
  saver_.prepare(*optimizer_);
  first_step_ = progress_.step;
  if (config_.evaluation.eval_on_start && progress_.step == 0 && !validation().empty()) evaluate(false);
  while (!is_finished()) {
    const StepResult result = timed_step();
    log_step(result);
    measure_peak_when_due();
    if (saver_.busy() && result.agreed.all_save_ready) saver_.advance();
    measured_.clear();
    const Milestones::Position position = this->position();
    bool is_best = false;
    if (evaluates_at(position)) {
      evaluate(false);
      is_best = see_evaluation();
    }
    const bool newly_yields = result.agreed.yield && !yields_;
    yields_ |= result.agreed.yield;
    if (milestones_.saves(position, is_best) || result.agreed.save || newly_yields) save_checkpoint(false);
    if (progress_.step == last_step) {
      save_checkpoint(true);
      if (reporter_) reporter_->progress().finish();
      return Ending::kDone;
    }
    if (result.agreed.stop) {
      if (config_.checkpoint.save_on_signal) save_checkpoint(true);
      saver_.finish();
      return Ending::kStopped;
    }
    if (yields_ && saver_.has_saved(progress_.step)) return Ending::kStopped;
    if (newly_yields && is_rank_zero()) log::warning("new machines join after the next successful save");
  }
  finish();
  return Ending::kDone;
}

Milestones::Position Trainer::position() const {
  return {progress_.step, batches_->updates().epochs_at(progress_.consumed),
          batches_->updates().ends_epoch(progress_.consumed)};
}

void Trainer::save_checkpoint(bool wait_until_done) {
  if (!saver_.has_begun(progress_.step)) report_(progress_.step, "saving");
  const auto show = [this](const char* activity) {
    if (reporter_) reporter_->progress().set_activity(activity);
  };
  show("saving");
  saver_.save(*optimizer_, progress_, measured_, wait_until_done);
  show("");
}

void Trainer::finish() {
  save_checkpoint(true);
  if (is_rank_zero()) {
    FolderOwner::from_environment(config_.output_dir).require();
    checkpoint::remove_partial(config_.output_dir);  // leftovers of a killed export or removal
  }
  const bool is_best = restore_best();
  report_(progress_.step, "saving the model");
  save_model(*model_, plan_, lora_, saver_.tokenizer(), config_.output_dir, saver_.key());
  if (!validation().empty()) {
    evaluate(true);  // after the save, so that a failure here loses no update
    if (!is_best) saver_.record(progress_.step, measured_);
  }
  if (!reporter_) return;
  reporter_->progress().finish();
  screen::print("done: {} steps; {} saved in {}\n", progress_.step, config_.lora ? "adapter" : "model",
                config_.output_dir);
  report_best(config_);
}

}  // namespace trainer::train
