// config.resolved.yaml: what a run writes is read back as it was, by every command, without a warning.
#include "engine/config/plan/tree.h"
#include "tests/config/given.h"
#include "tests/support/source_dir.h"

namespace trainer::config {
namespace {

class ResolvedFile : public Given {
 protected:
  const std::string ddp_ = "distributed_type: MULTI_CPU\nuse_cpu: true\nnum_processes: 2\n";
  const std::string fsdp_ = "distributed_type: FSDP\nuse_cpu: true\nnum_processes: 2\n";
  const std::string deepspeed_ =
      "distributed_type: DEEPSPEED\nuse_cpu: true\nnum_processes: 2\n"
      "deepspeed_config: {zero_stage: 3, offload_optimizer_device: cpu}\n";
  const std::string megatron_ =
      "distributed_type: MEGATRON_LM\nuse_cpu: true\nnum_processes: 2\n"
      "megatron_lm_config: {megatron_lm_tp_degree: 2}\n";
  const std::string seq2Seq_ = "model: {path: m}\ndata: {train: {path: a.txt, format: delimited}}\n";
  const std::string causal_ = "model: {path: m}\ndata: {task: causal_lm, train: {path: a.txt, sample_by: paragraph}}\n";
  const std::string lora_ = seq2Seq_ + "lora: {r: 4, target_modules: [q, v]}\n";
  const std::string classes_ =
      "model: {path: m}\ndata: {task: sequence_classification, train: {path: a.jsonl}}\n"
      "mixed_precision: bf16\n";
  const std::string images_ =
      "model: {config: {model_type: mlp}}\n"
      "data: {task: image_classification, train: {path: a, format: mnist}}\n";
  const std::string pairs_ = "model: {path: m}\ndata: {train: {path: a.jsonl}}\ndpo: {}\nlora: {peft_type: LOHA}\n";
};

TEST_F(ResolvedFile, IsReadBackWithoutWarning) {
  for (const std::string& ranks :
       {ddp_, fsdp_, deepspeed_, megatron_, std::string("distributed_type: NO\nuse_cpu: true\n")})
    for (const std::string& job : {seq2Seq_, causal_, lora_, classes_, images_, pairs_}) {
      SCOPED_TRACE(ranks + job);
      const Plan plan = resolve(ranks + job);
      const Plan again = resolve(resolved_text(plan));
      EXPECT_EQ(launch_warnings(again), std::vector<std::string>{});
      EXPECT_EQ(to_yaml(to_node(again.config, Options::kWithEffect)),
                to_yaml(to_node(plan.config, Options::kWithEffect)));
    }
}

/// Their defaults mean "not given": written out, they would contradict other options.
TEST_F(ResolvedFile, LeavesOutDefaultsThatContradictOtherOptions) {
  const Plan plan = resolve(fsdp_ + "num_machines: 2\nmain_process_ip: 10.0.0.1\n" + seq2Seq_ +
                            "training: {per_device_train_batch_size: 8, global_batch_size: 64}\n");
  const Plan again = resolve(resolved_text(plan));
  EXPECT_EQ(launch_warnings(again), std::vector<std::string>{});
  EXPECT_TRUE(same(to_node(again.config), to_node(plan.config)));
}

/// They are set by users of other programs, who were warned once.
TEST_F(ResolvedFile, LeavesOutOptionsWithoutEffect) {
  const Plan plan = resolve(ddp_ + seq2Seq_ +
                            "fsdp_config: {fsdp_forward_prefetch: true}\n"
                            "lora: {fan_in_fan_out: true}\ntraining: {loss_scaling: {hysteresis: 2}}\n");
  EXPECT_EQ(plan.warnings.size(), 2u);
  const std::string text = resolved_text(plan);
  for (const char* key : {"fsdp_forward_prefetch:", "fan_in_fan_out:", "loss_scaling:", "sequence_length:"})
    EXPECT_EQ(text.find(std::string("\n") + key), std::string::npos) << key;
  EXPECT_NE(explained_text(plan).find("  fan_in_fan_out: true  # "), std::string::npos);
  EXPECT_EQ(launch_warnings(resolve(text)), std::vector<std::string>{});
  const std::string nested = "fsdp_config: {fsdp_offload_params: true, fsdp_offload_pin_memory: false}\n";
  EXPECT_EQ(launch_warnings(resolve(resolved_text(resolve(fsdp_ + seq2Seq_ + nested)))), std::vector<std::string>{})
      << "nothing is offloaded on the CPU, so nothing is pinned";
}

}  // namespace
}  // namespace trainer::config
