#include "engine/train/trainer.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include <fmt/ranges.h>

#include "engine/base/errors.h"
#include "engine/base/files.h"
#include "engine/base/folder_lock.h"
#include "engine/base/log.h"
#include "engine/base/rank_board.h"
#include "engine/base/screen.h"
#include "engine/base/terminal_text.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/checkpoint/checkpoint_folder.h"
#include "engine/dist/accelerator.h"
#include "engine/dist/step_phase.h"
#include "engine/prepare/run_length.h"
#include "engine/train/conditions.h"
#include "engine/train/evaluation_request.h"
#include "engine/train/memory_plan.h"
#include "engine/train/peak_share.h"
#include "engine/train/preferences/preferences.h"
#include "engine/train/rank_memory.h"
#include "engine/train/sample_lengths.h"
#include "engine/train/save_model.h"
#include "engine/train/start.h"
#include "engine/train/stop_request.h"
#include "models/nn/device/attention_choice.h"

namespace trainer::train {
namespace {

using Clock = std::chrono::steady_clock;

/// Of the rank that needs most; 0 for very many samples, since looking for the longest ones would delay the start.
int64_t planned_bytes(const config::Plan& plan, const data::Datasets& datasets) {
  constexpr int64_t kMostSamples = 200'000;
  const prepare::RunLength length = prepare::run_length(plan.config, datasets.train->size(), plan.data_ranks());
  if (length.updates * length.global_batch > kMostSamples) return 0;
  return plan_largest_memory(plan, datasets.labels, workload_of(plan, datasets)).peak();
}

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

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

void Trainer::describe_start(metrics::StartFacts& facts) const {
  facts.ranks = model_->comm().size();
  facts.data_ranks = model_->mesh().data().size();
  for (const parallel::LogicalTensor& tensor : model_->logical_tensors()) {
    if (tensor.value.defined()) facts.rank_bytes += static_cast<int64_t>(tensor.value.nbytes());
    if (tensor.trainable) facts.rank_bytes += (tensor.end - tensor.begin) * static_cast<int64_t>(sizeof(float));
  }
  const dist::Degrees& degrees = model_->mesh().degrees();
  std::vector<std::string> axes;
  const std::pair<int64_t, const char*> sizes[] = {{model_->mesh().data().size(), "data"},
                                                   {degrees.tensor, "tensor"},
                                                   {degrees.context, "context"},
                                                   {degrees.pipeline, "pipeline"}};
  for (const auto& [size, name] : sizes)
    if (size > 1) axes.push_back(fmt::format("{} {}", size, name));
  if (axes.size() > 1) facts.mesh = fmt::format("{}", fmt::join(axes, " x "));
  facts.planned_bytes = planned_bytes(plan_, inputs_.datasets);
  facts.samples = train().size();
  facts.validation = validation().size();
  facts.step = progress_.step;
  facts.updates = total_steps_;
  facts.global_batch = progress_.global_batch;
}

bool Trainer::is_finished() const {
  return progress_.step >= total_steps_ || early_stopping_.stops();
}

void Trainer::report_configuration(const std::string& yaml) {
  if (reporter_ && !is_finished()) reporter_->report_configuration(yaml);
}

void Trainer::report_start(metrics::StartRecord record) {
  if (!reporter_ || is_finished()) return;
  constexpr int64_t kMostSamples = 10'000;  // a corpus is read for it
  record.step = progress_.step;
  record.ranks = model_->comm().size();
  record.samples = train().size();
  record.validation_samples = validation().size();
  const SampleLengths lengths = sample_lengths(train(), kMostSamples);
  const auto add = [&](const char* name, const LengthReport& report) {
    for (const LengthReport::Bar& bar : report.histogram)
      record.lengths[name].push_back({bar.from, bar.to, bar.samples});
  };
  if (train().features() == 0) add("source", lengths.source);
  if (train().label_kind() == data::LabelKind::kTarget) add("target", lengths.target);
  reporter_->report(std::move(record));
}

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
  if (manifest.seed != config_.seed)
    throw InputError(
        "{}: saved with seed {}; the configuration says {}.\n  The sample order depends on the seed: resume with seed "
        "{}.",
        folder, manifest.seed, config_.seed, manifest.seed);
  if (config_.deterministic)
    require_same_conditions(manifest.conditions, conditions_of(config_, model_->comm().size()), folder);
  model_->comm().barrier();  // write nothing before every rank has read its part
  progress_ = manifest.progress;
  progress_.global_batch = chosen_global_batch(manifest.progress.global_batch);
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

Trainer::StepResult Trainer::timed_step() {
  if (phase_clock_) phase_clock_->lap();
  const auto start = Clock::now();
  StepResult result = train_step();
  log_window_.add(result.tokens, result.efficiency, seconds_since(start), result.data_seconds);
  seconds_since_start_ += seconds_since(start);
  if (phase_clock_) log_window_.add(phase_clock_->lap());
  return result;
}

// Note [When the peak is measured]
// Never before the first update, and only in runs that take a while, as other ranks wait for rank 0 meanwhile: a
// quarter of a second for the matrix products, once for a machine (their speed is remembered), and the time of a dry
// run.

void Trainer::measure_peak_when_due() {
  constexpr int64_t kUpdates = 5;
  constexpr double kLeastSeconds = 60;
  if (!reporter_ || progress_.step != first_step_ + kUpdates) return;
  if (seconds_since_start_ / kUpdates * static_cast<double>(total_steps_ - progress_.step) < kLeastSeconds) return;
  peak_ = run_peak(plan_, compute_dtype(), model_->comm());
  if (peak_ > 0) flops_per_token_ = flops_per_token(plan_, inputs_.datasets);
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

Trainer::Update Trainer::update() {
  const StepResult result = train_step();
  return {result.tokens, result.agreed.stop};
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

void Trainer::report_stragglers(const std::vector<double>& seconds) {
  const int64_t machines = config_.num_machines, ranks = std::ssize(seconds);
  for (const Stragglers::News& news : stragglers_.see(seconds))
    if (reporter_)
      reporter_->report(metrics::StragglerRecord{progress_.step + 1, news.rank,
                                                 static_cast<int>(news.rank * machines / ranks), machines == 1,
                                                 news.factor, news.over});
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
  const bool overflow = !finite && loss_scale_ && loss_scale_->can_shrink();
  if (good) divergence_.pass(progress_.step + 1, loss);
  progress_.losses = divergence_.state();
  if (loss_scale_ && (finite || overflow)) shrink_or_grow_loss_scale(overflow);
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
      loss_scale_ ? fmt::format(", or use mixed_precision bf16: the loss scale of fp16 is at its minimum ({})",
                                loss_scale_->scale())
                  : "");
}

void Trainer::shrink_or_grow_loss_scale(bool overflow) {
  const double before = loss_scale_->scale();
  loss_scale_->update(overflow);
  progress_.loss_scale = loss_scale_->state();
  if (overflow && reporter_)
    reporter_->progress().print(
        fmt::format("step {}: gradients overflowed fp16, the update is skipped; loss scale {} → {}", progress_.step + 1,
                    before, loss_scale_->scale()));
}

void Trainer::report_histograms(int64_t step, HistogramOf what) {
  const config::LoggingConfig& logging = config_.logging;
  const bool is_read = std::ranges::find(logging.report_to, "tensorboard") != logging.report_to.end();
  if (!is_read || logging.histogram_steps == 0 || step % logging.histogram_steps != 0) return;
  std::vector<metrics::Histogram> histograms = histograms_of(*model_, what);
  if (reporter_) reporter_->report(metrics::HistogramRecord{step, std::move(histograms)});
}

void Trainer::log_step(const StepResult& result) {
  if (reporter_) reporter_->progress().advance(progress_.step);
  if (progress_.step % config_.logging.logging_steps != 0 && progress_.step != total_steps_) return;
  RankMemory memory = rank_memory(model_->comm());
  if (reporter_)
    reporter_->report(metrics::StepRecord{progress_.step,
                                          batches_->updates().epochs_at(progress_.consumed),
                                          progress_.loss_since_log / static_cast<double>(progress_.updates_since_log),
                                          result.grad_norm,
                                          result.learning_rate,
                                          progress_.tokens,
                                          progress_.consumed,
                                          log_window_.tokens_per_second(),
                                          log_window_.step_seconds(),
                                          log_window_.data_wait_seconds(),
                                          log_window_.efficiency(),
                                          *std::ranges::max_element(memory.resident),
                                          *std::ranges::max_element(memory.tensors),
                                          result.digest,
                                          loss_scale_ ? loss_scale_->scale() : 0,
                                          progress_.loss_scale.skipped,
                                          log_window_.phase_seconds(),
                                          std::move(memory.resident),
                                          std::move(memory.tensors),
                                          peak_ > 0 ? flops_per_token_ * log_window_.tokens_per_second() / peak_ : 0,
                                          reward_metrics(progress_.rewards_since_log)});
  progress_.loss_since_log = 0;
  progress_.rewards_since_log.clear();
  progress_.updates_since_log = 0;
  log_window_ = {};
}

Milestones::Position Trainer::position() const {
  return {progress_.step, batches_->updates().epochs_at(progress_.consumed), progress_.consumed % train().size() == 0};
}

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

void Trainer::save_checkpoint(bool wait_until_done) {
  if (!saver_.has_begun(progress_.step)) report_(progress_.step, "saving");
  const auto show = [this](const char* activity) {
    if (reporter_) reporter_->progress().set_activity(activity);
  };
  show("saving");
  saver_.save(*optimizer_, progress_, measured_, wait_until_done);
  show("");
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

void Trainer::finish() {
  save_checkpoint(true);
  if (is_rank_zero()) {
    FolderOwner::from_environment(config_.output_dir).require();
    checkpoint::remove_partial(config_.output_dir);  // leftovers of a killed export or removal
  }
  const bool is_best = restore_best();
  report_(progress_.step, "saving the model");
  save_model(*model_, plan_, lora_, inputs_, config_.output_dir, saver_.key());
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
