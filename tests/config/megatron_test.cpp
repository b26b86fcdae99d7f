// Megatron-LM's keys without Megatron-LM.
#include "tests/config/given.h"

namespace trainer::config {
namespace {

class Megatron : public Given {
 protected:
  static std::string file(const std::string& keys, const std::string& more = "") {
    return "distributed_type: MEGATRON_LM\nnum_processes: 2\nuse_cpu: true\nmodel: {path: m}\ndata: {train: {path: "
           "a}}\n"
           "megatron_lm_config: {" +
           keys + "}\n" + more;
  }
};

TEST_F(Megatron, IsDataParallelWithoutDegrees) {
  const Plan plan =
      resolve(file("megatron_lm_tp_degree: 1, megatron_lm_pp_degree: 1, megatron_lm_gradient_clipping: 0.5, "
                   "megatron_lm_recompute_activations: true"));
  EXPECT_EQ(plan.config.distributed_type, DistributedType::kMultiCpu);
  EXPECT_EQ(plan.config.training.max_grad_norm, 0.5);
  EXPECT_EQ(plan.origins.at("training.max_grad_norm"), (folder_ / "f.yaml").string() + ":6:105");
  EXPECT_TRUE(plan.config.training.gradient_checkpointing);
  EXPECT_FALSE(plan.config.megatron_lm_config);
  EXPECT_FALSE(plan.config.parallelism_config);
  EXPECT_TRUE(plan.warnings.empty());
  EXPECT_EQ(resolve("distributed_type: MEGATRON_LM\nnum_processes: 2\nuse_cpu: true\nmodel: {path: m}\n"
                    "data: {train: {path: a}}\n")
                .config.distributed_type,
            DistributedType::kMultiCpu);
}

TEST_F(Megatron, MicroBatchesBecomeAccumulationSteps) {
  const Plan plan = resolve(file("megatron_lm_pp_degree: 2, megatron_lm_num_micro_batches: 4"));
  EXPECT_EQ(plan.config.parallelism_config->pp_size, 2);
  EXPECT_EQ(plan.config.training.gradient_accumulation_steps, 4);
  EXPECT_EQ(plan.data_ranks(), 1);
  EXPECT_EQ(resolve(file("megatron_lm_pp_degree: 2, megatron_lm_decoder_last_pipeline_num_layers: 3"))
                .config.parallelism_config->pp_last_blocks,
            3);
  EXPECT_EQ(
      problems(file("megatron_lm_pp_degree: 2, megatron_lm_num_micro_batches: 4",
                    "training: {gradient_accumulation_steps: 2}\n")),
      "f.yaml:6:79: megatron_lm_config.megatron_lm_num_micro_batches is 4, but training.gradient_accumulation_steps "
      "is 2 (f.yaml:7:41): give one of them, or both the same value");
}

TEST_F(Megatron, DegreesBecomeMeshSizes) {
  const Plan plan = resolve(file("megatron_lm_tp_degree: 2, megatron_lm_pp_degree: 1"));
  EXPECT_EQ(plan.config.distributed_type, DistributedType::kMultiCpu);
  EXPECT_EQ(plan.config.parallelism_config->tp_size, 2);
  EXPECT_EQ(plan.data_ranks(), 1);
}

TEST_F(Megatron, RefusedDegreesAreReportedByTheUsersKey) {
  EXPECT_EQ(problems(file("megatron_lm_tp_degree: 3")),
            "f.yaml:6:45: megatron_lm_config.megatron_lm_tp_degree is 3, but num_processes is 2: num_processes must be "
            "a multiple of it");
  EXPECT_EQ(problems(file("megatron_lm_tp_degree: 2, megatron_lm_pp_degree: 4")),
            "f.yaml:6:45: the sizes of parallelism_config multiply to 8, but num_processes is 2: num_processes must be "
            "a multiple of it");
  EXPECT_EQ(problems(file("megatron_lm_tp_degree: 0")),
            "f.yaml:6:45: megatron_lm_config.megatron_lm_tp_degree must be at least 1; is 0");
}

TEST_F(Megatron, TranslatesSequenceAndContextParallelism) {
  const Plan rows = resolve(file("megatron_lm_tp_degree: 2, megatron_lm_sequence_parallelism: true"));
  EXPECT_TRUE(rows.config.parallelism_config->tp_sequence_parallel);
  EXPECT_TRUE(rows.warnings.empty());
  EXPECT_FALSE(resolve(file("megatron_lm_tp_degree: 2")).config.parallelism_config->tp_sequence_parallel);
  EXPECT_EQ(warnings(file("megatron_lm_sequence_parallelism: true")),
            "f.yaml:6:56: megatron_lm_config.megatron_lm_sequence_parallelism has no effect unless "
            "megatron_lm_tp_degree is above 1\n");
  const Plan samples = resolve(file("megatron_lm_context_parallel_size: 2"), {{"data.task", "causal_lm", "--set"}});
  EXPECT_EQ(samples.config.parallelism_config->cp_size, 2);
  EXPECT_EQ(samples.data_ranks(), 1);
}

TEST_F(Megatron, DistributedOptimizerHasNoEffect) {
  EXPECT_EQ(warnings(file("megatron_lm_use_distributed_optimizer: true")),
            "f.yaml: these keys have no effect here: megatron_lm_use_distributed_optimizer (see `trainer check`)\n");
  EXPECT_EQ(warnings(file("megatron_lm_use_distributed_optimizer: false")), "");
}

TEST_F(Megatron, RefusesDifferentValuesForOneOption) {
  EXPECT_EQ(problems(file("megatron_lm_gradient_clipping: 0.5", "training: {max_grad_norm: 2.5}\n")),
            "f.yaml:6:53: megatron_lm_config.megatron_lm_gradient_clipping is 0.5, but training.max_grad_norm is 2.5 "
            "(f.yaml:7:27): give one of them, or both the same value");
  EXPECT_EQ(resolve(file("megatron_lm_gradient_clipping: 0.5"), {{"training.max_grad_norm", "2", "--set"}})
                .config.training.max_grad_norm,
            2);
}

TEST_F(Megatron, SectionHasNoEffectWithOtherTypes) {
  EXPECT_EQ(warnings(kLeast + "megatron_lm_config: {megatron_lm_tp_degree: 2}\n"),
            "f.yaml:5:21: megatron_lm_config has no effect unless distributed_type is MEGATRON_LM\n");
  EXPECT_FALSE(resolve(kLeast + "megatron_lm_config: {megatron_lm_tp_degree: 2}\n").config.megatron_lm_config);
}

}  // namespace
}  // namespace trainer::config
