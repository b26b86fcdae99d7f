// The sections `checkpoint`, `evaluation` and `logging`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trainer::config {

/// When checkpoints are saved: every save_steps updates, after each epoch, after an evaluation that is the best so far,
/// or only at the end.
enum class SaveStrategy { kSteps, kEpoch, kBest, kNo };

/// `checkpoint`: when to save, and where to resume.
struct CheckpointConfig {
  SaveStrategy save_strategy = SaveStrategy::kSteps;
  int64_t save_steps = 500;                     // 0: only at the end
  int64_t save_total_limit = 0;                 // 0: keep all
  std::string metric_for_best_model = "none";   // of the best checkpoint, which is kept
  bool load_best_model_at_end = false;          // the final model is the best checkpoint's
  bool async_save = false;                      // written while training goes on
  std::string on_error = "warn";                // warn | stop: what to do if a save fails
  int64_t replicas = 1;                         // copies of each checkpoint, on machines that share no folder
  std::string hash = "xxh3";                    // xxh3 | sha256
  std::string sign;                             // file of the private key that signs; "": none
  std::string trusted_key;                      // file of the public key that must have signed; "": any or none
  std::string resume_from_checkpoint = "auto";  // auto | true | false | a folder
  bool save_on_signal = true;
  double grace_seconds = 25;  // for stopping and saving
};

/// `evaluation`: what is measured on the validation samples.
struct EvaluationConfig {
  int64_t eval_steps = 0;                    // 0: at the end of each epoch when there are validation samples
  std::vector<std::string> metrics{"loss"};  // names of engine/base/metrics.h
  bool generate = false;
  int64_t max_new_tokens = 0;  // 0: data.max_target_length
  double temperature = 0;      // 0: always the most likely token
  int64_t top_k = 0;           // 0: all
  double top_p = 1;
  int64_t num_beams = 1;  // 1: no beam search
  double length_penalty = 1;
  int64_t show_predictions = 8;
  bool eval_on_start = false;
  double eval_delay = 0;                // updates, or epochs if eval_steps is 0
  int64_t early_stopping_patience = 0;  // 0: the run makes all its updates
  double early_stopping_threshold = 0;
};

/// `logging`.
struct LoggingConfig {
  int64_t logging_steps = 10;
  std::vector<std::string> report_to;
  int64_t histogram_steps = 0;  // between histograms of gradients and weights, for TensorBoard; 0: none
  int64_t metrics_port = 0;     // of the launcher's metrics page; 0: none
  std::string metrics_address = "127.0.0.1";
};

}  // namespace trainer::config
