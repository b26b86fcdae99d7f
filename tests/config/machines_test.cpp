// The plan of an elastic run with fewer machines.
#include "engine/config/machine/machines.h"

#include "tests/config/given.h"

namespace trainer::config {
namespace {

class MachinesOfARun : public Given {
 protected:
  /// Four machines with two ranks each.
  Plan four(const std::string& more) {
    return resolve(
        "use_cpu: true\nnum_processes: 8\nnum_machines: 1:4\nmain_process_ip: a\nmodel: {path: m}\n"
        "data: {train: {path: a}}\n" +
        more);
  }
};

using Numbers = std::vector<int64_t>;

TEST_F(MachinesOfARun, KeepGlobalBatchSizeWithFewerMachines) {
  const Plan plan =
      four("distributed_type: MULTI_CPU\ntraining: {per_device_train_batch_size: 3, gradient_accumulation_steps: 2}\n");
  EXPECT_EQ(usable_machines(plan.config), (Numbers{1, 2, 3, 4}));
  for (const int64_t machines : {1, 2, 3, 4}) {
    const Plan part = plan_for_machines(plan, machines, machines - 1);
    EXPECT_EQ(part.config.num_machines, machines);
    EXPECT_EQ(part.config.num_processes, 2 * machines);
    EXPECT_EQ(part.config.machine_rank, machines - 1);
    EXPECT_EQ(part.config.training.global_batch_size, 3 * 2 * 8);
  }
  EXPECT_EQ(plan_for_machines(plan, 3, 0).origins.at("num_machines"), "3 of 4 machines");
}

TEST_F(MachinesOfARun, KeepGivenGlobalBatchSize) {
  const Plan plan = four("distributed_type: FSDP\ntraining: {global_batch_size: 10}\n");
  EXPECT_EQ(plan_for_machines(plan, 1, 0).config.training.global_batch_size, 10);
}

TEST_F(MachinesOfARun, FixedNumberLeavesPlanUnchanged) {
  Plan plan = four("distributed_type: FSDP\nmin_machines: 1\n");
  plan.config.min_machines = 4;
  EXPECT_FALSE(is_elastic(plan.config));
  EXPECT_EQ(usable_machines(plan.config), (Numbers{4}));
  EXPECT_EQ(plan_for_machines(plan, 4, 2).config.training.global_batch_size, 0);
}

TEST_F(MachinesOfARun, MeshSizesExcludeSomeNumbers) {
  const Plan shared = four("distributed_type: MULTI_CPU\nparallelism_config: {parallelism_config_tp_size: 4}\n");
  EXPECT_EQ(usable_machines(shared.config), (Numbers{2, 4}));
  EXPECT_EQ(unusable_machines(shared.config), (Numbers{1, 3}));
  ASSERT_EQ(shared.warnings.size(), 1u);
  EXPECT_EQ(
      without_folder(shared.warnings[0]),
      "f.yaml:3:15: the run can continue with 2 or 4 of its 4 machines, but not with 1 or 3: their ranks don't fit the "
      "sizes of the mesh");
  EXPECT_TRUE(
      four("distributed_type: MULTI_CPU\nparallelism_config: {parallelism_config_tp_size: 2}\n").warnings.empty());
}

TEST_F(MachinesOfARun, ReplicasFollowNumberOfMachines) {
  const Plan plan = four(
      "distributed_type: FSDP\nparallelism_config: {parallelism_config_dp_shard_size: 2, "
      "parallelism_config_dp_replicate_size: 4}\n");
  EXPECT_EQ(usable_machines(plan.config), (Numbers{1, 2, 3, 4}));
  EXPECT_EQ(plan_for_machines(plan, 3, 0).config.parallelism_config->dp_replicate_size, 3);
  EXPECT_EQ(plan_for_machines(plan, 3, 0).config.parallelism_config->dp_shard_size, 2);
  const Plan wide = four(
      "distributed_type: FSDP\nparallelism_config: {parallelism_config_dp_shard_size: 4, "
      "parallelism_config_dp_replicate_size: 2}\n");
  EXPECT_EQ(usable_machines(wide.config), (Numbers{2, 4}));
  const Plan hybrid = four("distributed_type: FSDP\nfsdp_config: {fsdp_sharding_strategy: HYBRID_SHARD}\n");
  EXPECT_EQ(usable_machines(hybrid.config), (Numbers{1, 2, 3, 4}));
}

}  // namespace
}  // namespace trainer::config
