// Continuing from a checkpoint, at the start or with the best one at the end.
#include "engine/base/errors.h"
#include "engine/base/log.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/checkpoint/checkpoint_folder.h"
#include "engine/prepare/run_length.h"
#include "engine/train/conditions.h"
#include "engine/train/start.h"
#include "engine/train/trainer.h"

namespace trainer::train {

void Trainer::resume() {
  if (is_rank_zero()) saver_.remove_unfinished();
  const Start start = agreed_start(config_, model_->comm());
  progress_.global_batch = chosen_global_batch(0);
  if (start == Start::kFromScratch) return;
  report_(-1, "resuming");
  const std::string& named = config_.checkpoint.resume_from_checkpoint;
  const checkpoint::RunState state{*model_, *optimizer_};
  const auto trust = trust_of(config_, start, access_);
  const checkpoint::Trust* const trusted = trust ? &*trust : nullptr;
  const checkpoint::Loaded loaded =
      start == Start::kNewest ? checkpoint::load_newest(config_.output_dir, state, access_, trusted)
                              : checkpoint::Loaded{named, checkpoint::load(named, state, access_, trusted), {}};
  resume_from(loaded.folder.string(), loaded.manifest);
  if (!is_rank_zero()) return;
  for (const std::string& newer : loaded.skipped) log::warning("skipped a newer checkpoint: {}", newer);
  log::info("resuming from {} (step {})", loaded.folder.string(), progress_.step);
}

void Trainer::resume_from(const std::string& folder, const checkpoint::Manifest& manifest) {
  if (manifest.samples != train().size())
    throw InputError(
        "{}: saved while training on {} samples; the data now has {}.\n  Resume with the data it was saved with, or "
        "start from scratch in another output_dir.",
        folder, manifest.samples, train().size());
  const int64_t global_batch = chosen_global_batch(manifest.progress.global_batch);
  const int64_t left_out = prepare::samples_left_out(config_.training, train().size(), global_batch);
  if (manifest.left_out != left_out)
    throw InputError(
        "{}: saved while each epoch left out {} of {} samples; with this configuration it leaves out {}.\n  Resume "
        "with the training.dataloader_drop_last and the batch sizes it was saved with.",
        folder, manifest.left_out, manifest.samples, left_out);
  if (manifest.seed != config_.seed)
    throw InputError(
        "{}: saved with seed {}; the configuration says {}.\n  The sample order depends on the seed: resume with seed "
        "{}.",
        folder, manifest.seed, config_.seed, manifest.seed);
  if (config_.deterministic)
    require_same_conditions(manifest.conditions, conditions_of(config_, model_->comm().size()), folder);
  model_->comm().barrier();  // write nothing before every rank has read its part
  progress_ = manifest.progress;
  progress_.global_batch = global_batch;
  if (loss_scale_ && progress_.loss_scale.scale > 0) loss_scale_->set_state(progress_.loss_scale);
  divergence_.set_state(progress_.losses);
  early_stopping_.set_state(progress_.evaluations);
  if (early_stopping_.stops()) evaluated_ = progress_.step;  // the run had ended; its last evaluation is recorded
  saver_.resumed_at(progress_.step);
}

int64_t Trainer::chosen_global_batch(int64_t of_checkpoint) const {
  const config::TrainingConfig& t = config_.training;
  if (t.global_batch_size == 0 && of_checkpoint > 0) return of_checkpoint;
  return prepare::global_batch(t, model_->mesh().data().size());
}

bool Trainer::restore_best() {
  const std::string& metric = config_.checkpoint.metric_for_best_model;
  if (!config_.checkpoint.load_best_model_at_end || metric == "none" || validation().empty()) return false;
  if (evaluated_ != progress_.step) evaluate(false);
  saver_.record(progress_.step, measured_);
  const auto found = is_rank_zero() ? best_of(config_) : std::nullopt;
  const auto best = static_cast<int64_t>(model_->comm().max(found ? static_cast<double>(found->step) : -1));
  if (best < 0 || best == progress_.step) return false;
  report_(progress_.step, "loading the best checkpoint");
  const auto folder = checkpoint::checkpoint_path(config_.output_dir, best);
  const auto trust = trust_of(config_, Start::kNewest, access_);
  checkpoint::load(folder, {*model_, *optimizer_}, access_, trust ? &*trust : nullptr);
  if (is_rank_zero()) log::info("the model is that of {}, which has the best {}", folder.filename().string(), metric);
  return true;
}

}  // namespace trainer::train
