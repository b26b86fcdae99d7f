// The wizard's questions, and the file it writes.
#include "engine/config/wizard.h"

#include <deque>

#include "tests/config/given.h"

namespace trainer::config {
namespace {

/// Answers in advance, and what was asked and said.
class Script : public Prompter {
 public:
  explicit Script(std::deque<std::string> answers) : answers_(std::move(answers)) {}
  std::optional<std::string> ask(const std::string& question, const std::string& current,
                                 const std::vector<std::string>& choices) override {
    said_ += question + " [" + current + "]\n";
    if (answers_.empty()) return std::nullopt;
    const std::string answer = answers_.front();
    answers_.pop_front();
    return answer;
  }
  void say(const std::string& line) override { said_ += line + "\n"; }

  std::deque<std::string> answers_;
  std::string said_;
};

using Wizard = Given;

const char* const kFolder = "a folder with config.json and weights";
const char* const kScratch = "a small T5, built from scratch";

TEST_F(Wizard, AWholeRun) {
  Script script({"FSDP",
                 "2",
                 "FULL_SHARD",
                 "TRANSFORMER_BASED_WRAP",
                 "T5Block",
                 "bf16",
                 "runs/a",
                 kFolder,
                 "/models/t5",
                 "a.txt",
                 "delimited",
                 "@",
                 "sentence,label",
                 "0.1",
                 "sentence",
                 "label",
                 "yes",
                 "8",
                 "32",
                 "0.1",
                 "q,v",
                 "4",
                 "2",
                 "1e-3"});
  Config config;
  config.use_cpu = true;
  ask_questions(config, script);
  EXPECT_TRUE(script.answers_.empty()) << script.said_;
  const std::string text = file_text(config, {}, Node());
  EXPECT_EQ(text,
            "compute_environment: LOCAL_MACHINE\n"
            "debug: false\n"
            "distributed_type: FSDP\n"
            "downcast_bf16: 'no'\n"
            "enable_cpu_affinity: false\n"
            "fsdp_config:\n"
            "  fsdp_activation_checkpointing: false\n"
            "  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n"
            "  fsdp_backward_prefetch: BACKWARD_PRE\n"
            "  fsdp_cpu_ram_efficient_loading: true\n"
            "  fsdp_forward_prefetch: false\n"
            "  fsdp_offload_params: false\n"
            "  fsdp_reshard_after_forward: FULL_SHARD\n"
            "  fsdp_state_dict_type: FULL_STATE_DICT\n"
            "  fsdp_sync_module_states: true\n"
            "  fsdp_transformer_layer_cls_to_wrap: T5Block\n"
            "  fsdp_use_orig_params: true\n"
            "  fsdp_version: 1\n"
            "machine_rank: 0\n"
            "main_training_function: main\n"
            "mixed_precision: bf16\n"
            "num_machines: 1\n"
            "num_processes: 2\n"
            "rdzv_backend: static\n"
            "same_network: true\n"
            "tpu_env: []\n"
            "tpu_use_cluster: false\n"
            "tpu_use_sudo: false\n"
            "use_cpu: true\n"
            "# What to train, and how. Accelerate itself does not know these sections.\n"
            "output_dir: runs/a\n"
            "model:\n"
            "  path: /models/t5\n"
            "data:\n"
            "  train:\n"
            "    path:\n"
            "    - a.txt\n"
            "    format: delimited\n"
            "    delimiter: '@'\n"
            "    columns:\n"
            "    - sentence\n"
            "    - label\n"
            "  validation:\n"
            "    fraction: 0.1\n"
            "  source: sentence\n"
            "  target: label\n"
            "lora:\n"
            "  r: 8\n"
            "  lora_alpha: 32\n"
            "  lora_dropout: 0.1\n"
            "  target_modules:\n"
            "  - q\n"
            "  - v\n"
            "training:\n"
            "  per_device_train_batch_size: 4\n"
            "  num_train_epochs: 2\n"
            "  learning_rate: 0.001\n");
  const Plan plan = resolve(text);
  EXPECT_EQ(plan.config.lora->target_modules.names, (std::vector<std::string>{"q", "v"}));
  EXPECT_EQ(plan.config.mixed_precision, MixedPrecision::kBf16);
}

TEST_F(Wizard, FromScratch) {
  Script script({"NO", "no", "out", kScratch, "tok", "many", "300", "a.csv", "", "", "", "source", "target", "no"});
  Config config;
  config.use_cpu = true;
  ask_questions(config, script);
  EXPECT_NE(script.said_.find("vocab_size must be an integer above 0; is 'many'"), std::string::npos);
  const Plan plan = resolve(file_text(config, {}, Node()));
  EXPECT_NE(plan.config.model.config.find(R"("model_type":"t5")"), std::string::npos);
  EXPECT_NE(plan.config.model.config.find(R"("vocab_size":300)"), std::string::npos);
  EXPECT_FALSE(plan.config.lora);
}

TEST_F(Wizard, WrongAnswersAreToldAndAskedForAgain) {
  Script script({"FSPD", "MULTI_GPU", "fsdp", "0", "two", "3", "5", "NO_WRAP"});
  Config config;
  ask_questions(config, script);
  EXPECT_EQ(script.said_,
            "How should training be distributed? [NO]\n"
            "  distributed_type must be one of NO, MULTI_CPU, MULTI_GPU, FSDP; is 'FSPD' (did you mean 'FSDP'?)\n"
            "How should training be distributed? [NO]\n"
            "  distributed_type MULTI_GPU is not supported by this version (it needs GPU support; with --cpu or "
            "use_cpu: true "
            "it runs as MULTI_CPU); NO or MULTI_CPU or FSDP is\n"
            "How should training be distributed? [NO]\n"
            "How many processes should be used for distributed training? [1]\n"
            "  num_processes must be at least 1; is 0\n"
            "How many processes should be used for distributed training? [1]\n"
            "  num_processes must be an integer; is 'two'\n"
            "How many processes should be used for distributed training? [1]\n"
            "What should be your sharding strategy? [FULL_SHARD]\n"
            "  fsdp_sharding_strategy HYBRID_SHARD_ZERO2 is not supported by this version; FULL_SHARD is\n"
            "What should be your sharding strategy? [FULL_SHARD]\n"
            "  fsdp_sharding_strategy must be one of FULL_SHARD, SHARD_GRAD_OP, NO_SHARD, HYBRID_SHARD, "
            "HYBRID_SHARD_ZERO2; is "
            "'NO_WRAP'\n"
            "What should be your sharding strategy? [FULL_SHARD]\n");
  EXPECT_EQ(config.num_processes, 3);
  EXPECT_EQ(config.fsdp_config.sharding_strategy, ShardingStrategy::kFullShard);
}

TEST_F(Wizard, WhatIsThereIsKept) {
  setenv("WIZARD_TEST_N", "2", 1);
  const std::string file = write("old.yaml",
                                 "distributed_type: MULTI_CPU\n"
                                 "num_processes: ${WIZARD_TEST_N}\n"
                                 "gpu_ids: 0,1\n"
                                 "rdzv_backend: c10d\n"
                                 "model: {path: '${HOME}/m'}\n"
                                 "data: {train: {path: a.txt}, max_samples: 9}\n"
                                 "lora: {r: 4, use_dora: false, target_modules: '.*q'}\n");
  const Prefill prefill = read_prefill(file);
  Config config = prefill.config;
  Script script({"", "", "", "runs"});
  ask_questions(config, script);
  const std::string text = file_text(config, prefill.config, prefill.document);
  for (const char* line :
       {"num_processes: ${WIZARD_TEST_N}\n", "gpu_ids: 0,1\n", "rdzv_backend: c10d\n", "  path: ${HOME}/m\n",
        "  max_samples: 9\n", "  r: 4\n", "  target_modules: .*q\n", "output_dir: runs\n", "use_dora: false\n"}) {
    EXPECT_NE(text.find(line), std::string::npos) << line << "in\n" << text;
  }
  EXPECT_EQ(file_text(prefill.config, prefill.config, prefill.document).find("fsdp_config"), std::string::npos);
  const Plan plan = resolve(text);
  EXPECT_EQ(plan.config.lora->target_modules.pattern, ".*q");
  EXPECT_EQ(plan.config.num_processes, 2);
}

TEST_F(Wizard, WritingAgainChangesNothing) {
  Script script({"FSDP", "2"});
  Config config;
  ask_questions(config, script);
  const std::string text = file_text(config, {}, Node());
  const Prefill prefill = read_prefill(write("a.yaml", text));
  EXPECT_EQ(file_text(prefill.config, prefill.config, prefill.document), text);
}

TEST_F(Wizard, AnswersFromAFile) {
  Config config;
  apply_answers(write("a.yaml", "num_processes: 3\nlora: {r: 2}\n"), config);
  EXPECT_EQ(config.num_processes, 3);
  EXPECT_EQ(config.lora->r, 2);
  EXPECT_THROW(apply_answers(write("b.yaml", "num_procs: 3\n"), config), ConfigError);
}

}  // namespace
}  // namespace trainer::config
