// What one case of the self-test trains, and how.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/config/plan.h"

namespace trainer::selftest {

/// A way to spread a model over ranks.
struct Strategy {
  std::string name;  // "FSDP FULL_SHARD 3"
  int ranks = 1;
  config::DistributedType type = config::DistributedType::kNo;
  config::ShardingStrategy sharding = config::ShardingStrategy::kFullShard;
  config::ParallelismConfig degrees;
  std::vector<std::string> devices;
  bool share_memory = true;  // false: as if the ranks were on different machines
};

/// A small model with dropout, in sizes that divide by little.
struct TinyModel {
  std::string name;  // "T5"
  config::Task task;
  std::string config;   // config.json
  bool splits = false;  // its layers can be shared by ranks
  bool stages = false;  // its blocks can be spread over ranks
  int64_t vocabulary = 0;
};

struct Setting {
  TinyModel model;
  Strategy strategy;
  bool lora = false;
  int64_t micro_batches = 1;
  bool recompute = false;
  bool bf16 = false;
  double gradient_tolerance = 1e-6;  // relative, of fp32 against fp32 in another order of sums

  /// "LLaMA lora TP 2 x4 recompute"
  std::string name() const;
  /// The same on one rank, in one pass, nothing recomputed.
  Setting reference() const;
};

/// Samples of an update, whatever the ranks.
constexpr int64_t kGlobalBatch = 8;

/// The plan of a run of that setting. Its model starts from the seed.
config::Plan plan_of(const Setting& setting);

}  // namespace trainer::selftest
