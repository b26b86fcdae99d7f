// Compares the wizard's files with the files that Accelerate wrote for the same answers.
#include <fstream>

#include <gtest/gtest.h>

#include "engine/config/pages/file_text.h"
#include "tests/config/answers.h"
#include "tests/config/given.h"
#include "tests/support/source_dir.h"

namespace trainer::config {
namespace {

const std::string kWizardFolder = source_dir() + "/tests/config/accelerate/";

const char* const kMachine = "Which type of machine";
const char* const kDeepspeed = "Do you want to use DeepSpeed?";
const char* const kStage = "What should be your DeepSpeed's ZeRO";
const char* const kFsdpAnswers = "Do you want to use FullyShardedDataParallel?";
const char* const kVersion = "What should be your FSDP version?";
const char* const kLayers = "Specify the comma-separated list of transformer layer class names";
const char* const kMegatron = "Do you want to use Megatron-LM ?";
const char* const kCpuOnly = "Do you want to run your training on CPU only";
const char* const kGpus = "How many GPU(s)";
const char* const kPrecision = "Do you wish to use mixed precision?";

std::string file_of(const std::string& name) {
  std::ifstream in(kWizardFolder + name);
  EXPECT_TRUE(in) << name;
  return std::string(std::istreambuf_iterator<char>(in), {});
}

/// Only Accelerate's part of the file that the wizard writes for these answers.
std::string written(const Answers::Given& given, FileFormat format = FileFormat::kYaml) {
  Answers answers(given);
  WizardDraft draft;
  ask_questions(draft, answers, plain_surroundings());
  EXPECT_EQ(answers.unused(), "");
  for (const char* const ours : {"output_dir", "data", "training", "checkpoint", "logging", "model"})
    draft.document.erase(ours);
  return file_text(draft.document, format);
}

Answers::Given operator|(Answers::Given all, const Answers::Given& more) {
  for (const auto& [question, answers] : more) all[question] = answers;
  return all;
}

const Answers::Given kFourGpus{{kMachine, {"multi-GPU"}}, {kGpus, {"4"}}};
const char* const kMachines = "How many different machines";
const char* const kRank = "What is the rank of this machine?";
const char* const kAddress = "What is the IP address";
const char* const kNear = "Are all the machines on the same local network?";
const Answers::Given kTwoMachines = kFourGpus | Answers::Given{{kMachines, {"2"}}, {kAddress, {"10.0.0.1"}}};
const Answers::Given kWithDeepspeed = kFourGpus | Answers::Given{{kDeepspeed, {"yes"}}};
const Answers::Given kWithMegatron = kFourGpus | Answers::Given{{kMegatron, {"yes"}}};

struct Branch {
  const char* file;
  Answers::Given answers;
};

class SameAsAccelerate : public ::testing::TestWithParam<Branch> {};

TEST_P(SameAsAccelerate, WritesItsFile) {
  EXPECT_EQ(written(GetParam().answers), file_of(GetParam().file));
}

const char* const kOptimizerTo = "Where to offload optimizer states?";
const char* const kParametersTo = "Where to offload parameters?";
const char* const kTensor = "What is the Tensor Parallelism degree";

INSTANTIATE_TEST_SUITE_P(
    Branches, SameAsAccelerate,
    ::testing::Values(
        Branch{"no_distributed.yaml", {{kCpuOnly, {"no"}}}}, Branch{"cpu_only.yaml", {}},
        Branch{"cpu_bf16.yaml", {{kCpuOnly, {"yes"}}, {kPrecision, {"bf16"}}}},
        Branch{"multi_cpu.yaml", {{kMachine, {"multi-CPU"}}, {"How many processes", {"2"}}}},
        Branch{"multi_gpu.yaml", kFourGpus},
        Branch{"multi_gpu_debug.yaml", kFourGpus | Answers::Given{{"Should distributed operations", {"YES"}}}},
        Branch{"two_machines.yaml", kTwoMachines},
        Branch{"two_machines_second.yaml", kTwoMachines | Answers::Given{{kRank, {"1"}}}},
        Branch{"two_machines_other_network.yaml", kTwoMachines | Answers::Given{{kNear, {"no"}}}},
        Branch{"deepspeed_standard.yaml", kTwoMachines | Answers::Given{{kDeepspeed, {"yes"}}}},
        Branch{"deepspeed_stage0.yaml", kWithDeepspeed | Answers::Given{{kStage, {"0"}}}},
        Branch{"deepspeed_stage2.yaml", kWithDeepspeed},
        Branch{"deepspeed_stage3.yaml", kWithDeepspeed | Answers::Given{{kStage, {"3"}}, {kPrecision, {"bf16"}}}},
        Branch{"deepspeed_one_gpu.yaml", {{kCpuOnly, {"no"}}, {kDeepspeed, {"yes"}}}},
        Branch{"deepspeed_stage2_offload_cpu.yaml", kWithDeepspeed | Answers::Given{{kOptimizerTo, {"cpu"}}}},
        Branch{"deepspeed_stage3_offload_nvme.yaml",
               kWithDeepspeed | Answers::Given{{kStage, {"3"}},
                                               {kOptimizerTo, {"nvme"}},
                                               {kParametersTo, {"nvme"}},
                                               {"Nvme Path to offload parameters?", {"/mnt/nvme0"}}}},
        Branch{"deepspeed_stage3_init_and_save.yaml",
               kWithDeepspeed | Answers::Given{{kStage, {"3"}},
                                               {"Do you want to save 16-bit", {"yes"}},
                                               {"Do you want to enable `deepspeed.zero.Init`", {"yes"}}}},
        Branch{"deepspeed_accumulate_and_clip.yaml",
               kWithDeepspeed | Answers::Given{{"How many gradient accumulation steps", {"4"}},
                                               {"Do you want to use gradient clipping?", {"yes"}},
                                               {"What is the gradient clipping value?", {"0.5"}}}},
        Branch{"deepspeed_moe.yaml",
               kWithDeepspeed |
                   Answers::Given{{"Do you want to enable Mixture-of-Experts training", {"yes"}},
                                  {"Specify the comma-separated list of transformers MoE", {"MixtralSparseMoeBlock"}}}},
        Branch{"deepspeed_json.yaml",
               kWithDeepspeed | Answers::Given{{"Do you want to specify a json file", {"yes"}},
                                               {"Please enter the path to the json", {"ds_config.json"}}}},
        Branch{"megatron.yaml", kWithMegatron},
        Branch{"megatron_tensor.yaml", kWithMegatron | Answers::Given{{kTensor, {"2"}}, {kPrecision, {"bf16"}}}},
        Branch{
            "megatron_tensor_no_sequence.yaml",
            kWithMegatron | Answers::Given{{kTensor, {"2"}}, {"Do you want to enable Sequence Parallelism?", {"no"}}}},
        Branch{"megatron_pipeline.yaml",
               kWithMegatron | Answers::Given{{"What is the Pipeline Parallelism degree", {"2"}},
                                              {"What is the number of micro-batches?", {"8"}}}},
        Branch{"megatron_plain.yaml",
               kWithMegatron | Answers::Given{{"Do you want to enable selective activation recomputation?", {"no"}},
                                              {"Do you want to use distributed optimizer", {"no"}},
                                              {"What is the gradient clipping value based on", {"0"}}}}),
    [](const auto& info) {
      const std::string name = info.param.file;
      return name.substr(0, name.find('.'));
    });

TEST(WizardAccelerate, WritesSameJson) {
  EXPECT_EQ(written(kWithDeepspeed | Answers::Given{{kStage, {"3"}}}, FileFormat::kJson),
            file_of("deepspeed_json_file.json"));
}

/// `text` with the lines that begin with `key` replaced.
std::string with(std::string text, const std::string& key, const std::string& lines) {
  const std::size_t start = text.find("  " + key + ":");
  EXPECT_NE(start, std::string::npos) << key << " in\n" << text;
  return text.replace(start, text.find('\n', start) + 1 - start, lines);
}

/// The difference from Accelerate: the strategy is written under the key that Accelerate's launcher reads.
TEST(WizardAccelerate, WritesFsdp1StrategyUnderKeyThatIsRead) {
  std::string theirs = file_of("fsdp1_full_shard.yaml");
  theirs = with(theirs, "fsdp_reshard_after_forward", "  fsdp_sharding_strategy: FULL_SHARD\n");
  const Answers::Given fsdp{
      {kMachine, {"multi-GPU"}}, {kFsdpAnswers, {"yes"}}, {kVersion, {"1"}}, {kLayers, {"T5Block"}}, {kGpus, {"2"}}};
  EXPECT_EQ(written(fsdp), theirs);
  theirs = with(with(theirs, "fsdp_backward_prefetch", "  fsdp_backward_prefetch: NO_PREFETCH\n"),
                "fsdp_state_dict_type", "  fsdp_state_dict_type: LOCAL_STATE_DICT\n");
  EXPECT_EQ(written(fsdp | Answers::Given{{"What should be your FSDP's backward prefetch", {"NO_PREFETCH"}},
                                          {"What should be your FSDP's state dict type?", {"LOCAL_STATE_DICT"}}}),
            theirs);
  theirs =
      with(with(file_of("fsdp1_no_wrap.yaml"), "fsdp_reshard_after_forward", "  fsdp_sharding_strategy: FULL_SHARD\n"),
           "fsdp_activation_checkpointing", "  fsdp_activation_checkpointing: true\n");
  EXPECT_EQ(written({{kMachine, {"multi-GPU"}},
                     {kFsdpAnswers, {"yes"}},
                     {kVersion, {"1"}},
                     {"What should be your auto wrap policy?", {"NO_WRAP"}},
                     {"Do you want to enable FSDP activation checkpointing?", {"yes"}},
                     {kGpus, {"2"}}}),
            theirs);
}

TEST(WizardAccelerate, WritesFsdp2StrategyAndReshardAfterForward) {
  const auto ours = [](std::string theirs) {
    theirs = with(theirs, "fsdp_cpu_ram_efficient_loading",
                  "  fsdp_backward_prefetch: BACKWARD_PRE\n  fsdp_cpu_ram_efficient_loading: true\n");
    return with(theirs, "fsdp_state_dict_type",
                "  fsdp_sharding_strategy: FULL_SHARD\n  fsdp_state_dict_type: SHARDED_STATE_DICT\n");
  };
  const Answers::Given fsdp{{kMachine, {"multi-GPU"}}, {kFsdpAnswers, {"yes"}}, {kGpus, {"4"}}};
  EXPECT_EQ(written(fsdp | Answers::Given{{kLayers, {"T5Block"}}}), ours(file_of("fsdp2.yaml")));
  EXPECT_EQ(written(fsdp | Answers::Given{{"Do you want to use the model's `_no_split_modules`", {"yes"}}}),
            ours(file_of("fsdp2_no_split_modules.yaml")));
}

TEST(WizardAccelerate, OffersFsdpOnCpus) {
  const std::string text = written({{kMachine, {"multi-CPU"}}, {kFsdpAnswers, {"yes"}}, {"How many processes", {"3"}}});
  for (const char* const line : {"distributed_type: FSDP\n", "use_cpu: true\n", "num_processes: 3\n"})
    EXPECT_NE(text.find(line), std::string::npos) << text;
}

TEST(WizardAccelerate, AsksInSameOrder) {
  Answers answers(Answers::Given{{kMachine, {"multi-GPU"}}, {kFsdpAnswers, {"yes"}}, {kVersion, {"1"}}});
  WizardDraft draft;
  ask_questions(draft, answers, plain_surroundings());
  const std::vector<std::string> order{kMachine,
                                       kMachines,
                                       "Should distributed operations",
                                       kDeepspeed,
                                       kFsdpAnswers,
                                       kVersion,
                                       "What should be your sharding strategy?",
                                       "Do you want to offload parameters and gradients to CPU?",
                                       "What should be your auto wrap policy?",
                                       "Do you want to use the model's `_no_split_modules`",
                                       kLayers,
                                       "What should be your FSDP's backward prefetch policy?",
                                       "What should be your FSDP's state dict type?",
                                       "Do you want to enable FSDP activation checkpointing?",
                                       kGpus,
                                       kPrecision,
                                       "What do you want to do?",
                                       "Which model?"};
  ASSERT_GE(answers.asked.size(), order.size());
  for (std::size_t i = 0; i < order.size(); ++i)
    EXPECT_TRUE(answers.asked[i].text.starts_with(order[i])) << answers.asked[i].text << "\nis not\n" << order[i];
}

TEST(WizardAccelerate, RefusesMultiGpuWithOneGpu) {
  Answers answers(Answers::Given{{kMachine, {"multi-GPU"}}, {kGpus, {"1", "2"}}});
  WizardDraft draft;
  ask_questions(draft, answers, plain_surroundings());
  EXPECT_NE(answers.said.find("multi-GPU needs at least two GPUs"), std::string::npos) << answers.said;
  EXPECT_EQ(draft.config.num_processes, 2);
}

TEST(WizardAccelerate, DefaultsDependOnMachine) {
  Surroundings around = plain_surroundings();
  around.machine.gpus = {"A", "A", "A"};
  Answers answers(Answers::Given{{kMachine, {"multi-GPU"}}});
  WizardDraft draft;
  ask_questions(draft, answers, around);
  EXPECT_EQ(draft.config.num_processes, 3);
  Answers alone({});
  WizardDraft single;
  ask_questions(single, alone, around);
  EXPECT_EQ(alone.last(kCpuOnly).current, "no");
  Answers cpus(Answers::Given{{kMachine, {"multi-CPU"}}});
  WizardDraft several;
  ask_questions(several, cpus, around);
  EXPECT_EQ(several.config.num_processes, 4);
}

/// The wizard preserves every supported file of Accelerate if all answers are kept.
TEST(WizardAccelerate, PreservesFilesWithKeptAnswers) {
  for (const char* const name :
       {"no_distributed.yaml", "cpu_only.yaml", "multi_gpu.yaml", "multi_gpu_ids.yaml", "multi_gpu_numa.yaml",
        "two_machines.yaml", "dynamo_customised.yaml", "deepspeed_stage3_offload_nvme.yaml", "deepspeed_json.yaml",
        "deepspeed_accumulate_and_clip.yaml", "megatron_pipeline.yaml", "multi_gpu_fp16.yaml"}) {
    WizardDraft draft = read_draft(kWizardFolder + name);
    SilentPrompter silent;
    ask_questions(draft, silent, plain_surroundings());
    for (const char* const ours : {"output_dir", "data", "training", "checkpoint", "logging", "model"})
      draft.document.erase(ours);
    EXPECT_EQ(file_text(draft.document, FileFormat::kYaml), file_of(name)) << name;
  }
}

/// Pitfall: FSDP 1's strategy under the key that Accelerate's launcher ignores is moved to the one that it reads.
TEST(WizardAccelerate, MovesStrategyOfOlderFile) {
  WizardDraft draft = read_draft(kWizardFolder + "fsdp1_shard_grad_op.yaml");
  EXPECT_EQ(draft.config.fsdp_config.sharding_strategy, ShardingStrategy::kShardGradOp);
}

}  // namespace
}  // namespace trainer::config
