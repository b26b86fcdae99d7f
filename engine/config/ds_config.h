// The keys of a ds_config.json that have an effect. They are not part of a plan: translate_deepspeed converts them to
// our options. engine/config/tables/ds_config.cpp lists every other key of DeepSpeed 0.19, with the reason why it has
// none.
#pragma once

#include "engine/config/schema.h"

namespace trainer::config {

/// `fp16`.
struct DsFp16 {
  Auto<bool> enabled;
  Auto<int64_t> initial_scale_power, loss_scale_window, hysteresis;
  bool consecutive_hysteresis = false;
  Auto<double> min_loss_scale, loss_scale;
};

/// `bf16`.
struct DsBf16 {
  Auto<bool> enabled;
};

struct DsOffload {
  std::string device = "none";  // none | cpu | nvme
  bool pin_memory = true;
};

/// `zero_optimization`.
struct DsZero {
  int64_t stage = 0;
  DsOffload offload_optimizer, offload_param;
  bool cpu_offload = false, cpu_offload_param = false;  // older spellings
  Auto<bool> gather_16bit_weights_on_model_save;
};

/// `optimizer.params`. The default is "auto".
struct DsOptimizerParams {
  Auto<double> lr;
  std::vector<std::string> betas;  // two numbers, or "auto"
  Auto<double> eps;
  Auto<double> weight_decay;
  Auto<double> momentum;
  bool adam_w_mode = true;  // for type Adam: decoupled weight decay
  bool torch_adam = false;  // has other defaults
};

struct DsOptimizer {
  std::string type;
  DsOptimizerParams params;
};

/// `scheduler.params`.
struct DsSchedulerParams {
  Auto<double> warmup_min_lr;
  Auto<double> warmup_max_lr;
  Auto<int64_t> warmup_num_steps;
  std::string warmup_type = "log";  // log | linear
  Auto<int64_t> total_num_steps;
  Auto<double> warmup_min_ratio;
  Auto<double> cos_min_ratio;
};

struct DsScheduler {
  std::string type;
  DsSchedulerParams params;
};

struct DsConfig {
  Auto<int64_t> train_batch_size;  // of all ranks, per update
  Auto<int64_t> train_micro_batch_size_per_gpu;
  Auto<int64_t> gradient_accumulation_steps;
  Auto<double> gradient_clipping;
  Auto<bool> dataloader_drop_last;
  DsFp16 fp16;
  DsBf16 bf16;
  DsZero zero_optimization;
  DsOptimizer optimizer;
  DsScheduler scheduler;
};

const Entries& ds_config_table();
const Entries& ds_zero_table();
const Entries& ds_optimizer_table();
const Entries& ds_scheduler_table();

}  // namespace trainer::config
