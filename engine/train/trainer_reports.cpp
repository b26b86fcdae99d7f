// What a run tells of itself: on the screen, in metrics.jsonl and in TensorBoard.
#include <algorithm>
#include <utility>

#include <fmt/ranges.h>

#include "engine/base/errors.h"
#include "engine/base/log.h"
#include "engine/prepare/run_length.h"
#include "engine/train/memory_plan.h"
#include "engine/train/peak_share.h"
#include "engine/train/preferences/preferences.h"
#include "engine/train/rank_memory.h"
#include "engine/train/sample_lengths.h"
#include "engine/train/trainer.h"

namespace trainer::train {
namespace {

/// Of the rank that needs most; 0 for very many samples, since looking for the longest ones would delay the start.
int64_t planned_bytes(const config::Plan& plan, const data::Datasets& datasets) {
  constexpr int64_t kMostSamples = 200'000;
  const prepare::RunLength length = prepare::run_length(plan.config, datasets.train->size(), plan.data_ranks());
  if (length.updates * length.global_batch > kMostSamples) return 0;
  return plan_largest_memory(plan, datasets.labels, workload_of(plan, datasets)).peak();
}

}  // namespace

void Trainer::describe_start(metrics::StartFacts& facts) const {
  facts.ranks = model_->comm().size();
  facts.data_ranks = model_->mesh().data().size();
  for (const parallel::LogicalTensor& tensor : model_->logical_tensors()) {
    if (tensor.value.defined()) facts.rank_bytes += static_cast<int64_t>(tensor.updated_part(tensor.value).nbytes());
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

// Note [When the peak is measured]
// Never before the first update, and only in runs that take a while, as other ranks wait for rank 0 meanwhile: a
// quarter of a second for the matrix products, once for a machine (their speed is remembered), and the time of a dry
// run.

void Trainer::measure_peak_when_due() {
  constexpr int64_t kUpdates = 5;
  constexpr double kLeastSeconds = 60;
  if (!reporter_ || progress_.step != first_step_ + kUpdates) return;
  if (seconds_since_start_ / kUpdates * static_cast<double>(total_steps_ - progress_.step) < kLeastSeconds) return;
  try {
    peak_ = run_peak(plan_, compute_dtype(), model_->comm());
    if (peak_ > 0) flops_per_token_ = flops_per_token(plan_, inputs_.datasets);
  } catch (const Error& error) {  // the model's folder may be gone, which a run that has begun doesn't need
    peak_ = 0;
    const std::string why = error.what();
    log::warning("this run's share of the machine's speed isn't known: {}", why.substr(0, why.find('\n')));
  }
}

void Trainer::report_stragglers(const std::vector<double>& seconds) {
  const int64_t machines = config_.num_machines, ranks = std::ssize(seconds);
  for (const Stragglers::News& news : stragglers_.see(seconds))
    if (reporter_)
      reporter_->report(metrics::StragglerRecord{progress_.step + 1, news.rank,
                                                 static_cast<int>(news.rank * machines / ranks), machines == 1,
                                                 news.factor, news.over});
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

}  // namespace trainer::train
