// The configuration file as plain structs. The initializers are the defaults; the tables in engine/config/tables/
// define everything else about each option (help, choices, ranges, aliases, questions).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/config/sections/adapters.h"
#include "engine/config/sections/data.h"
#include "engine/config/sections/distributed.h"
#include "engine/config/sections/model.h"
#include "engine/config/sections/running.h"
#include "engine/config/sections/training.h"

namespace trainer::config {

/// The whole file: Accelerate's keys at the top, our sections below them.
struct Config {
  std::string compute_environment = "LOCAL_MACHINE";
  DistributedType distributed_type = DistributedType::kNo;
  MixedPrecision mixed_precision = MixedPrecision::kNo;
  int64_t num_processes = 0;  // 0: not given
  int64_t num_machines = 1;
  int64_t min_machines = 0;  // a run with fewer stops; 0: num_machines
  int64_t machine_rank = 0;
  std::string main_process_ip;
  int64_t main_process_port = 0;
  int64_t max_restarts = 0;  // of all ranks, after a rank or a machine is lost
  bool use_cpu = false;
  std::vector<std::string> gpu_ids{"all"};  // CUDA's indices or names of the GPUs of each machine
  bool enable_cpu_affinity = false;         // ranks run on the NUMA node of their GPU
  std::vector<std::string> devices;         // DATA_PARALLEL: of the single process
  bool debug = false;
  int64_t num_cpu_threads_per_process = 0;  // 0: one
  FsdpConfig fsdp_config;
  std::optional<DeepspeedConfig> deepspeed_config;   // absent in a plan
  std::optional<MegatronConfig> megatron_lm_config;  // absent in a plan
  std::optional<ParallelismConfig> parallelism_config;

  int64_t seed = 42;
  bool deterministic = false;
  std::string output_dir = "trainer_output";
  ModelConfig model;
  TokenizerConfig tokenizer;
  DataConfig data;
  std::optional<LoraConfig> lora;  // absent: every weight is trained
  std::optional<DpoConfig> dpo;    // absent: the loss is the cross-entropy
  TrainingConfig training;
  CheckpointConfig checkpoint;
  EvaluationConfig evaluation;
  LoggingConfig logging;
};

}  // namespace trainer::config
