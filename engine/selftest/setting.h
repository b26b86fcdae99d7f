// What one case of the self-test trains, and how.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/config/plan/plan.h"

namespace trainer::selftest {

/// A way to distribute training over ranks.
struct Strategy {
  std::string name;  // "FSDP FULL_SHARD 3"
  int ranks = 1;
  config::DistributedType type = config::DistributedType::kNo;
  config::ShardingStrategy sharding = config::ShardingStrategy::kFullShard;
  config::ParallelismConfig degrees;
  std::vector<std::string> devices;
  bool share_memory = true;  // false: behave like ranks on different machines
  bool offload = false;      // shards stay in the host's memory
};

/// A small model with dropout, whose sizes have few divisors.
struct TinyModel {
  std::string name;  // "T5"
  config::Task task;
  std::string config;   // config.json
  bool splits = false;  // supports tensor parallelism
  bool stages = false;  // supports pipeline parallelism
  int64_t vocabulary = 0;
  double gradient_tolerance = 1e-6;  // relative, for fp32 against fp32 with another summation order
};

struct Setting {
  TinyModel model;
  Strategy strategy;
  bool lora = false;
  int64_t micro_batches = 1;
  bool recompute = false;
  bool bf16 = false;
  bool dropout = true;  // of the model itself

  /// "LLaMA lora TP 2 x4 recompute"
  std::string name() const;
  /// The same setting on one rank, in one micro-batch, without recomputation.
  Setting reference() const;
};

/// Samples per update, for any number of ranks.
constexpr int64_t kGlobalBatch = 8;

/// The plan that runs a setting. Its model is initialized from the seed.
config::Plan plan_of(const Setting& setting);

}  // namespace trainer::selftest
