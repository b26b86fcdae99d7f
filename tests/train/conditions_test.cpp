#include "engine/train/conditions.h"

#include <gtest/gtest.h>

#include "engine/base/errors.h"

namespace trainer::train {
namespace {

/// What is reported when a run under `before` is resumed under `now`; "" when nothing differs.
std::string difference(const config::Config& before, const config::Config& now) {
  try {
    require_same_conditions(conditions_of(before, 4), conditions_of(now, 4), "checkpoint-1");
    return "";
  } catch (const ConfigError& error) {
    return error.what();
  }
}

TEST(Conditions, NameWhatChangesTheOrderOfSums) {
  config::Config ddp;
  ddp.distributed_type = config::DistributedType::kMultiCpu;
  config::Config fsdp = ddp;
  fsdp.distributed_type = config::DistributedType::kFsdp;
  EXPECT_EQ(difference(ddp, ddp), "");
  const auto change = [](config::Config config, const auto& apply) {
    apply(config);
    return config;
  };
  const auto degrees = [&](auto member) {
    return change(ddp, [&](config::Config& c) { c.parallelism_config.emplace().*member = 2; });
  };
  using P = config::ParallelismConfig;
  const std::pair<config::Config, const char*> changed[] = {
      {degrees(&P::tp_size), "tp_size was 1 and is 2"},
      {degrees(&P::cp_size), "cp_size was 1 and is 2"},
      {degrees(&P::pp_size), "pp_size was 1 and is 2"},
      {degrees(&P::dp_replicate_size), "dp_replicate_size was 1 and is 2"},
      {degrees(&P::dp_shard_size), "dp_shard_size was 1 and is 2"},
      {change(ddp, [](config::Config& c) { c.training.max_tokens = 512; }), "training.max_tokens was 0 and is 512"},
      {change(ddp, [](config::Config& c) { c.training.ddp_bucket_cap_mb = 1; }), "ddp_bucket_cap_mb was 25 and is 1"},
      {change(ddp, [](config::Config& c) { c.training.ddp_comm_hook = config::CommHook::kBf16; }),
       "ddp_comm_hook was no and is bf16"}};
  for (const auto& [config, reported] : changed)
    EXPECT_NE(difference(ddp, config).find(reported), std::string::npos) << difference(ddp, config);
  const auto no_shard =
      change(fsdp, [](config::Config& c) { c.fsdp_config.sharding_strategy = config::ShardingStrategy::kNoShard; });
  EXPECT_NE(difference(fsdp, no_shard).find("fsdp_sharding_strategy was FULL_SHARD and is NO_SHARD"), std::string::npos);
  const auto bf16 = change(fsdp, [](config::Config& c) { c.fsdp_config.reduce_dtype = "bfloat16"; });
  EXPECT_NE(difference(fsdp, bf16).find("fsdp_reduce_dtype was float32 and is bfloat16"), std::string::npos);
}

}  // namespace
}  // namespace trainer::train
