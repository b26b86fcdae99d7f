// The training loop.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>

#include "engine/checkpoint/folder_access.h"
#include "engine/checkpoint/manifest.h"
#include "engine/config/plan/plan.h"
#include "engine/dist/work_clock.h"
#include "engine/evaluation/evaluate.h"
#include "engine/metrics/reporter.h"
#include "engine/metrics/start_panel.h"
#include "engine/optim/loss_scale.h"
#include "engine/optim/optimizer.h"
#include "engine/optim/schedule.h"
#include "engine/parallel/parallel_model.h"
#include "engine/train/batches_ahead.h"
#include "engine/train/build.h"
#include "engine/train/core_sharing.h"
#include "engine/train/divergence.h"
#include "engine/train/early_stopping.h"
#include "engine/train/first_steps.h"
#include "engine/train/histograms.h"
#include "engine/train/log_window.h"
#include "engine/train/milestones.h"
#include "engine/train/profile/phase_clock.h"
#include "engine/train/run_saver.h"
#include "engine/train/step_agreement.h"
#include "engine/train/stragglers.h"

namespace trainer::train {

/// How a run ended.
enum class Ending { kDone, kStopped };

class Trainer {
 public:
  /// Called with this rank's step and phase, for the supervisor's messages.
  using Report = std::function<void(int64_t step, const char* phase)>;
  /// Called on rank 0, if set: what the supervisor's metrics page shows.
  struct Published {
    metrics::Reporter::Forward line;       // each line of metrics.jsonl
    std::function<void(bool saved)> save;  // the end of each save
  };

  /// Collective. Resumes as start_of() says.
  Trainer(const config::Plan& plan, prepare::Inputs& inputs, config::LoraConfig lora,
          std::unique_ptr<parallel::ParallelModel> model, checkpoint::FolderAccess access, Report report,
          Published published = {});

  /// Sets what the trainer knows of the run's start.
  void describe_start(metrics::StartFacts& facts) const;
  /// On rank 0: writes the start to metrics.jsonl. `record` has what is known of the model.
  void report_start(metrics::StartRecord record);
  /// For TensorBoard: the resolved configuration.
  void report_configuration(const std::string& yaml);

  /// Collective. Trains, evaluates, saves. With `last_step`, a replay: ends after that update and its checkpoint.
  Ending run(std::optional<int64_t> last_step = {});

  struct Update {
    int64_t tokens = 0;  // of all ranks
    bool stop = false;   // the run was asked to stop; the same on all ranks
  };
  /// Collective. One update by itself: nothing is logged, evaluated or saved.
  Update update();
  /// The dtype of matrix products.
  at::ScalarType compute_dtype() const { return model_->precision().compute; }

 private:
  /// The outcome of an update: applied, or not because it overflowed fp16 or diverged (Note [Divergence]).
  enum class StepOutcome { kMake, kOverflow, kSkip, kRollBack };
  struct StepResult {
    StepOutcome outcome;
    double loss, grad_norm, learning_rate;
    int64_t tokens;
    double efficiency;
    std::string digest;
    double data_seconds;
    StepAgreement agreed;
  };

  void resume();
  void resume_from(const std::string& folder, const checkpoint::Manifest& manifest);
  Ending run_updates(std::optional<int64_t> last_step);
  int64_t chosen_global_batch(int64_t of_checkpoint) const;
  StepResult train_step();
  UpdateBatch next_batch();
  /// Collective. Clips the gradients and returns their norm before.
  double clip();
  /// Collective. `loss`: this rank's sum, of the update that ran as `pass`.
  StepAgreement agree_on_step(double loss, const nn::Pass& pass);
  /// `seconds`: how long each rank worked on the update.
  void report_stragglers(const std::vector<double>& seconds);
  /// Called once the update's loss and gradients are known. Errors: NumericError when they diverge and the run stops.
  StepOutcome outcome_of_update(double loss, double grad_norm, const UpdateBatch& batch);
  [[noreturn]] void throw_diverged(double loss, double grad_norm, const UpdateBatch& batch) const;
  void update_loss_scale(bool overflow);
  /// Applies the update to the weights if it is `good`; otherwise drops its gradients.
  void make_update(bool good, double learning_rate);
  /// Whether no update is left. A run that is started again after its end leaves its files as they are.
  bool is_finished() const;
  /// One update, timed.
  StepResult timed_step();
  void log_step(const StepResult& result);
  /// Collective. Reports histograms for the update `step`, if they are due.
  void report_histograms(int64_t step, HistogramOf what);
  /// On rank 0, once, after some updates of a run that takes a while (Note [When the peak is measured]).
  void measure_peak_when_due();
  void evaluate(bool at_end);
  /// At the end: replaces the weights by those of the best checkpoint, if checkpoint.load_best_model_at_end is true.
  /// Returns whether it did.
  bool restore_best();
  /// After a scheduled evaluation, which early stopping counts. Returns whether it is the best so far.
  bool see_evaluation();
  /// RunSaver::save() of this step.
  void save_checkpoint(bool wait_until_done);
  void finish();
  Milestones::Position position() const;
  bool evaluates_at(const Milestones::Position& position) const;
  const data::Samples& train() const { return *inputs_.datasets.train; }
  const data::Samples& validation() const { return *inputs_.datasets.validation; }
  bool is_rank_zero() const { return model_->comm().rank() == 0; }

  const config::Plan& plan_;
  const config::Config& config_;
  prepare::Inputs& inputs_;
  config::LoraConfig lora_;
  std::unique_ptr<parallel::ParallelModel> model_;
  checkpoint::FolderAccess access_;
  Report report_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  RunSaver saver_;
  std::map<std::string, double> measured_;      // metrics of the evaluation at this step
  std::optional<FirstSteps> first_steps_;       // reset when its checks are done
  bool first_update_ = true;                    // of this attempt
  std::optional<optim::LossScale> loss_scale_;  // fp16 only
  Divergence divergence_;
  EarlyStopping early_stopping_;
  Milestones milestones_;
  int64_t evaluated_ = -1;  // the step of the last evaluation
  Stragglers stragglers_;
  CoreSharing core_sharing_;
  dist::WorkClock work_;
  checkpoint::Progress progress_;
  std::optional<BatchesAhead> batches_;
  std::optional<optim::LearningRate> schedule_;
  int64_t total_steps_ = 0;
  bool yields_ = false;                        // machines are joining: this generation ends after the next good save
  std::optional<metrics::Reporter> reporter_;  // rank 0 only
  std::optional<PhaseClock> phase_clock_;      // while run() trains, on rank 0 of a run on the CPU (Note [Phases])
  LogWindow log_window_;
  double seconds_since_start_ = 0;         // in updates
  double peak_ = 0, flops_per_token_ = 0;  // of the run and its model; 0: not known
  int64_t first_step_ = 0;                 // of this attempt
};

}  // namespace trainer::train
