// One update: batch, gradients, agreement of the ranks, and what is done about a loss that diverges.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "engine/base/errors.h"
#include "engine/base/log.h"
#include "engine/base/rank_board.h"
#include "engine/dist/step_phase.h"
#include "engine/train/preferences/preferences.h"
#include "engine/train/stop_request.h"
#include "engine/train/trainer.h"
#include "models/nn/device/attention_choice.h"

namespace trainer::train {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

Trainer::StepResult Trainer::timed_step() {
  if (phase_clock_) phase_clock_->lap();
  const auto start = Clock::now();
  StepResult result = train_step();
  log_window_.add(result.tokens, result.efficiency, seconds_since(start), result.data_seconds);
  seconds_since_start_ += seconds_since(start);
  if (phase_clock_) log_window_.add(phase_clock_->lap());
  return result;
}

Trainer::Update Trainer::update() {
  const StepResult result = train_step();
  return {result.tokens, result.agreed.stop};
}

Trainer::StepResult Trainer::train_step() {
  const int64_t step = progress_.step, skipped_before = progress_.loss_scale.skipped;
  divergence_.keep(*model_, *optimizer_, step);
  core_sharing_.begin_update();
  const auto start = Clock::now();
  const UpdateBatch batch = next_batch();
  const double data_seconds = seconds_since(start);
  report_(step + 1, kForwardAndBackward);
  if (first_steps_) first_steps_->check_batch(batch);
  nn::Pass pass;
  pass.seed = static_cast<uint64_t>(config_.seed);
  pass.training = config_.training.dropout;
  pass.embedding_noise = config_.training.neftune_noise_alpha;
  pass.label_smoothing = config_.training.label_smoothing_factor;
  compare_pairs(config_, pass);
  if (loss_scale_) model_->set_loss_scale(loss_scale_->scale());
  std::optional<nn::AttentionCount> attention;  // every update is like the first
  if (is_rank_zero() && std::exchange(first_update_, false)) attention.emplace();
  const double mine = model_->update(batch.micro_batches, batch.target_tokens, pass);
  if (attention && !attention->text().empty()) log::info("attention: {}", attention->text());
  const StepAgreement agreed = agree_on_step(mine, pass);
  report_stragglers(agreed.work_seconds);
  const double loss = agreed.loss / static_cast<double>(batch.target_tokens);
  report_histograms(step + 1, HistogramOf::kGradients);
  const double grad_norm = clip();
  const StepOutcome outcome = outcome_of_update(loss, grad_norm, batch);
  report_(step + 1, kOptimizerStep);
  const double learning_rate = schedule_->at(step - skipped_before);
  make_update(outcome == StepOutcome::kMake, learning_rate);
  report_histograms(step + 1, HistogramOf::kWeights);
  progress_.step += 1;
  progress_.consumed = batch.positions.end;
  progress_.tokens += batch.tokens;
  if (std::isfinite(loss) && (outcome == StepOutcome::kMake || outcome == StepOutcome::kOverflow)) {
    progress_.loss_since_log += loss;
    progress_.rewards_since_log.resize(agreed.rewards.size());
    for (size_t i = 0; i < agreed.rewards.size(); ++i) progress_.rewards_since_log[i] += agreed.rewards[i];
    progress_.updates_since_log += 1;
  }
  if (outcome == StepOutcome::kRollBack) divergence_.roll_back(*model_, *optimizer_);
  report_(step + 1, "logging and reading the next batch");
  core_sharing_.end_update(progress_.step);
  return {outcome, loss, grad_norm, learning_rate, batch.tokens, batch.efficiency, batch.digest, data_seconds, agreed};
}

UpdateBatch Trainer::next_batch() {
  const dist::StepPhase phase(dist::step_phase::kData);
  return batches_->next(progress_.consumed);
}

double Trainer::clip() {
  const dist::StepPhase phase(dist::step_phase::kClipping);
  return model_->clip_grad_norm(config_.training.max_grad_norm);
}

StepAgreement Trainer::agree_on_step(double loss, const nn::Pass& pass) {
  // Ranks that work on the same samples have the same loss, so only one of them contributes it.
  const dist::Mesh& mesh = model_->mesh();
  const bool counts = mesh.tensor().rank() + mesh.context().rank() + mesh.pipeline().rank() == 0;
  StepReport mine;
  mine.loss = counts ? loss : 0.0;
  mine.rewards = reward_sums(pass);
  if (!counts) std::fill(mine.rewards.begin(), mine.rewards.end(), 0.0);
  mine.stop = stop_signal() != 0;
  mine.save = take_save_request();
  mine.yield = take_yield_request();
  mine.save_ready = saver_.ready();
  mine.work_seconds = work_.lap();
  return agree(mine, model_->comm());
}

void Trainer::make_update(bool good, double learning_rate) {
  const dist::StepPhase phase(dist::step_phase::kOptimizer);
  saver_.wait_for_copy();
  if (good) {
    if (first_steps_) first_steps_->see_gradients();
    optimizer_->step(model_->logical_tensors(), learning_rate);
  }
  model_->after_update(progress_.step + 1);
  model_->zero_grad();
  if (!good || !first_steps_) return;
  if (const std::string warning = first_steps_->see_update(learning_rate); is_rank_zero() && !warning.empty())
    log::warning("{}", warning);
  if (first_steps_->done()) first_steps_.reset();
}

Trainer::StepOutcome Trainer::outcome_of_update(double loss, double grad_norm, const UpdateBatch& batch) {
  const bool finite = std::isfinite(loss) && std::isfinite(grad_norm);
  const bool good = finite && !divergence_.is_spike(loss);
  const bool overflow = !finite && loss_scale_ && loss_scale_->may_overflow();
  if (good) divergence_.pass(progress_.step + 1, loss);
  progress_.losses = divergence_.state();
  if (loss_scale_ && (finite || overflow)) update_loss_scale(overflow);
  if (good) return StepOutcome::kMake;
  if (overflow) return StepOutcome::kOverflow;
  const Divergence::Remedy remedy = divergence_.remedy(progress_.step + 1);
  if (remedy == Divergence::Remedy::kStop) throw_diverged(loss, grad_norm, batch);
  const bool back = remedy == Divergence::Remedy::kRollBack;
  if (reporter_)
    reporter_->report(metrics::DivergenceRecord{progress_.step + 1, loss, grad_norm, batch.positions.begin,
                                                batch.positions.end, batch.digest,
                                                back ? divergence_.kept_step() : -1});
  return back ? StepOutcome::kRollBack : StepOutcome::kSkip;
}

void Trainer::throw_diverged(double loss, double grad_norm, const UpdateBatch& batch) const {
  const std::string samples = fmt::format("samples {} to {} in sample order, digest {}", batch.positions.begin,
                                          batch.positions.end - 1, batch.digest);
  if (std::isfinite(loss) && std::isfinite(grad_norm))
    throw NumericError(
        "the loss is {:g}, far above the mean of the previous losses, {:g} ({}).\n  The weights are those of step {}. "
        "Lower training.learning_rate, check these samples, or set training.on_divergence to skip or rollback.",
        loss, divergence_.state().mean, samples, progress_.step);
  const std::string where = std::isfinite(loss) ? not_finite(*model_) : "";
  throw NumericError(
      "the {} is {} ({}{}).\n  The weights are those of step {}. "
      "Lower training.learning_rate, or check these samples{}.",
      std::isfinite(loss) ? "gradient norm" : "loss", std::abs(std::isfinite(loss) ? grad_norm : loss),  // no "-nan"
      samples, where.empty() ? "" : "; in " + where, progress_.step,
      loss_scale_ ? fmt::format(", or use mixed_precision bf16: the loss scale of fp16 {} ({})",
                                loss_scale_->is_fixed() ? "never changes" : "is at its minimum", loss_scale_->scale())
                  : "");
}

void Trainer::update_loss_scale(bool overflow) {
  const double before = loss_scale_->scale();
  loss_scale_->update(overflow);
  progress_.loss_scale = loss_scale_->state();
  if (overflow && reporter_)
    reporter_->progress().print(
        fmt::format("step {}: gradients overflowed fp16, the update is skipped; loss scale {}{}", progress_.step + 1,
                    before, loss_scale_->is_fixed() ? "" : fmt::format(" → {}", loss_scale_->scale())));
}

}  // namespace trainer::train
