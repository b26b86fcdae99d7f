// The section `training`.
#pragma once

#include <cstdint>
#include <string>

#include "engine/config/optimizers.h"

namespace trainer::config {

enum class MatmulPrecision { kHighest, kHigh, kMedium };
enum class SavedActivations { kAsComputed, kBfloat16, kInt8 };
enum class Schedule {
  kLinear,
  kCosine,
  kConstant,
  kConstantWithWarmup,
  kCosineWithRestarts,
  kCosineWithMinLr,
  kCosineWarmupWithMinLr,
  kPolynomial,
  kInverseSqrt,
  kWarmupStableDecay,
  // DeepSpeed's
  kWarmupLr,
  kWarmupDecayLr,
  kWarmupCosineLr
};
enum class DdpBackend { kGloo, kMpi, kNccl };
enum class GlooTransport { kTls, kAuthenticated, kTcp };
/// What happens to a run when a loss or a gradient is not plausible.
enum class OnDivergence { kStop, kSkip, kRollback };
/// Compression of gradients between ranks: none, 16 bits, or low-rank products of two matrices.
enum class CommHook { kNo, kFp16, kBf16, kPowerSgd, kBatchedPowerSgd };

/// `training.lr_scheduler_kwargs`: parameters of a schedule in addition to warmup_steps.
struct ScheduleConfig {
  double warmup_min_lr = 0;           // warmup_lr, warmup_decay_lr
  std::string warmup_type = "log";    // log | linear: DeepSpeed's schedules
  int64_t total_num_steps = 0;        // warmup_decay_lr, warmup_cosine_lr; 0: all updates of the run
  double warmup_min_ratio = 0;        // warmup_cosine_lr
  double cos_min_ratio = 1e-4;        // warmup_cosine_lr
  double num_cycles = 0;              // 0: the schedule's own default
  double lr_end = 1e-7;               // polynomial
  double power = 1.0;                 // polynomial
  int64_t timescale = 0;              // inverse_sqrt; 0: warmup_steps, or 10000
  double min_lr = -1;                 // cosine_with_min_lr, cosine_warmup_with_min_lr; -1: not given
  double min_lr_rate = -1;            // the same
  double warmup_lr_rate = -1;         // cosine_warmup_with_min_lr; -1: 1 / warmup_steps
  int64_t num_decay_steps = -1;       // warmup_stable_decay; -1: not given
  int64_t num_stable_steps = -1;      // warmup_stable_decay; -1: the remaining ones
  std::string decay_type = "cosine";  // warmup_stable_decay: cosine | linear | 1-sqrt
  double min_lr_ratio = 0;            // warmup_stable_decay
};

/// `training.ddp_comm_state_option`: PowerSGD's, with torch's names and the defaults of its PowerSGDState.
struct PowerSgdConfig {
  int64_t matrix_approximation_rank = 1;
  int64_t start_power_sgd_iter = 1000;  // uncompressed updates before it starts
  double min_compression_rate = 2;      // a matrix that would shrink less is sent uncompressed
  bool use_error_feedback = true;       // adds the compression error to the next gradient
  bool warm_start = true;               // starts from the factors of the last update
  double orthogonalization_epsilon = 0;
  int64_t random_seed = 0;
};

/// `training.loss_scaling`: for mixed_precision fp16, with DeepSpeed's names and the defaults of torch.amp.GradScaler.
struct LossScalingConfig {
  double loss_scale = 0;                // 0: it is dynamic, as the other options say; else it never changes
  int64_t initial_scale_power = 16;     // the scale starts at 2 to this power
  int64_t loss_scale_window = 2000;     // updates without an overflow after which the scale doubles
  int64_t hysteresis = 1;               // overflows after which the scale is halved
  bool consecutive_hysteresis = false;  // an update without an overflow resets their count
  double min_loss_scale = 1;
};

/// `training`: TrainingArguments' names and defaults.
struct TrainingConfig {
  int64_t per_device_train_batch_size = 8;
  int64_t per_device_eval_batch_size = 8;
  int64_t gradient_accumulation_steps = 1;
  int64_t global_batch_size = 0;  // 0: per_device_train_batch_size * gradient_accumulation_steps * ranks
  double num_train_epochs = 3.0;
  int64_t max_steps = -1;
  double learning_rate = 5e-5;
  Schedule lr_scheduler_type = Schedule::kLinear;
  ScheduleConfig lr_scheduler_kwargs;
  double warmup_steps = 0;  // below 1: a ratio of all updates
  double weight_decay = 0.0;
  double max_grad_norm = 1.0;  // 0: no clipping
  OptimizerName optim = OptimizerName::kAdamWFused;
  double adam_beta1 = 0.9;
  double adam_beta2 = 0.999;
  double adam_epsilon = 1e-8;
  double sgd_momentum = 0.0;
  std::string optim_args;        // "key=value, …": further arguments of the optimizer
  double loraplus_lr_ratio = 0;  // LoRA+: learning rate of B relative to A; 0: equal
  double label_smoothing_factor = 0;
  double neftune_noise_alpha = 0;     // 0: no noise
  bool group_by_length = false;       // samples of similar length in one update
  bool dataloader_drop_last = false;  // an epoch ends with the last whole batch
  bool auto_find_batch_size = false;
  int64_t max_tokens = 0;  // of a rank in one forward pass; 0: per_device_train_batch_size decides
  bool gradient_checkpointing = false;
  bool activation_offloading = false;  // the inputs of recomputed blocks wait in host memory
  int64_t encoder_cache_mb = 0;        // of the outputs of an encoder that isn't trained; 0: none are kept
  SavedActivations saved_activations = SavedActivations::kAsComputed;  // until backward
  bool dropout = true;                                                 // false: every dropout of the model is off
  bool tf32 = false;  // fp32 matrix products of GPUs round their inputs to 10 bits
  MatmulPrecision float32_matmul_precision = MatmulPrecision::kHighest;
  bool cuda_graphs = false;  // passes of repeated shapes are recorded on GPUs and replayed
  DdpBackend ddp_backend = DdpBackend::kGloo;
  GlooTransport gloo_transport = GlooTransport::kTls;
  int64_t ddp_timeout = 1800;  // seconds
  CommHook ddp_comm_hook = CommHook::kNo;
  CommHook ddp_comm_wrapper = CommHook::kNo;
  PowerSgdConfig ddp_comm_state_option;
  double ddp_bucket_cap_mb = 25;
  int64_t local_sgd_steps = 0;  // local updates between averagings of the weights; 0: off
  LossScalingConfig loss_scaling;
  bool check_first_steps = true;
  OnDivergence on_divergence = OnDivergence::kStop;
  double loss_spike_deviations = 0;  // above the mean of the last losses; 0: only non-finite values diverge
  int64_t snapshot_steps = 100;      // for rollback
};

}  // namespace trainer::config
