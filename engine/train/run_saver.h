// Saves a run: what a checkpoint contains, and which failures end the run.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "engine/checkpoint/checkpoint_folder.h"
#include "engine/checkpoint/saver.h"
#include "engine/config/plan/plan.h"
#include "engine/prepare/inputs.h"
#include "engine/train/save_model.h"

namespace trainer::train {

class RunSaver {
 public:
  /// Called with the step of a save, and whether it has succeeded.
  using AtEnd = std::function<void(int64_t step, bool saved)>;

  /// All references must outlive it.
  RunSaver(const config::Plan& plan, const prepare::Inputs& inputs, const config::LoraConfig& lora,
           parallel::ParallelModel& model, checkpoint::FolderAccess access, AtEnd at_end = {});

  /// On rank 0, before resuming. Errors: those of checkpoint::Saver::remove_unfinished().
  void remove_unfinished() const { saver_.remove_unfinished(); }
  /// Before the first update.
  void prepare(optim::Optimizer& optimizer) { saver_.prepare({model_, optimizer}); }
  /// The run was resumed from a checkpoint of this step.
  void resumed_at(int64_t step) { last_saved_ = step; }

  bool busy() const { return saver_.busy(); }
  bool ready() const { return saver_.ready(); }
  void wait_for_copy() { saver_.wait_for_copy(); }
  /// Collective. The next phase of the save in progress, once every rank is ready().
  void advance();
  /// Collective. Waits for the save in progress.
  void finish();

  /// Whether a save of this step was begun, or the run was resumed from it.
  bool has_begun(int64_t step) const { return last_saved_ == step; }
  /// Collective. Begins a save, unless this step was already saved. `wait_until_done`: waits until it is published, and
  /// throws the errors that a periodic save may only warn about.
  void save(optim::Optimizer& optimizer, const checkpoint::Progress& progress,
            const std::map<std::string, double>& metrics, bool wait_until_done);
  /// Collective. Whether a checkpoint of this step is on disk; waits for a save in progress.
  bool has_saved(int64_t step);
  /// Adds metrics that were measured after the checkpoint of `step` was saved.
  void record(int64_t step, const std::map<std::string, double>& metrics) const { saver_.record(step, metrics); }
  /// The tokenizer, to be saved with weights.
  const TokenizerOfRun& tokenizer() const { return tokenizer_; }
  /// The key that signs checkpoints; null: none, or on another rank.
  const checkpoint::SigningKey* key() const { return saver_.key(); }

 private:
  /// Collective. Runs a part of a save, its beginning if `begins`, and calls at_end_ if it is the last one.
  void run(const std::function<void()>& part, bool begins = false);
  /// Collective. As run(); a failure is a warning unless checkpoint.on_error is "stop".
  void attempt(const std::function<void()>& part, bool begins = false);
  checkpoint::Manifest manifest(const checkpoint::Progress& progress,
                                const std::map<std::string, double>& metrics) const;

  const config::Plan& plan_;
  const prepare::Inputs& inputs_;
  const config::LoraConfig& lora_;
  parallel::ParallelModel& model_;
  TokenizerOfRun tokenizer_;
  checkpoint::Saver saver_;
  AtEnd at_end_;
  int64_t last_saved_ = -1;  // the newest step whose save has begun, and has not failed
};

/// The best checkpoint by checkpoint.metric_for_best_model; nothing if there is none, or no metric is set.
std::optional<checkpoint::Found> best_of(const config::Config& config);
/// At the end of a run, on rank 0: reports the best checkpoint, or that none has the metric.
void report_best(const config::Config& config);

}  // namespace trainer::train
