// Options from environment variables, the precedence of sources, and the default file.
#include "engine/config/machine/environment.h"
#include "engine/config/plan/files.h"
#include "engine/config/tables.h"
#include "tests/config/given.h"

namespace trainer::config {
namespace {

const std::string kFsdp =
    "distributed_type: FSDP\nnum_processes: 2\nuse_cpu: true\nmodel: {path: m}\ndata: {train: {path: a.txt}}\n";

using Environment = Given;

TEST_F(Environment, LaterSourcesWin) {
  struct Sample {
    const char *path, *file, *variable, *in_environment, *in_flag;
    std::string (*value)(const Config& config);
  };
  const Sample samples[] = {
      {"fsdp_config.fsdp_min_num_params", "fsdp_config: {fsdp_min_num_params: 1e3, auto_wrap_policy: NO_WRAP}",
       "FSDP_MIN_NUM_PARAMS", "2000", "3000",
       [](const Config& c) { return std::to_string(c.fsdp_config.min_num_params); }},
      {"fsdp_config.fsdp_activation_checkpointing", "fsdp_config: {fsdp_activation_checkpointing: true}",
       "FSDP_ACTIVATION_CHECKPOINTING", "False", "yes",
       [](const Config& c) { return std::string(c.fsdp_config.activation_checkpointing ? "yes" : "False"); }},
      {"mixed_precision", "mixed_precision: bf16", "ACCELERATE_MIXED_PRECISION", "no", "bf16",
       [](const Config& c) { return name_of(c.mixed_precision); }},
      {"training.max_grad_norm", "training: {max_grad_norm: 0.5}", "ACCELERATE_GRADIENT_CLIPPING", "2", "3",
       [](const Config& c) { return fmt::format("{}", c.training.max_grad_norm); }},
      {"fsdp_config.fsdp_transformer_layer_cls_to_wrap", "fsdp_config: {transformer_layer_cls_to_wrap: [A]}",
       "FSDP_TRANSFORMER_CLS_TO_WRAP", "B,C", "D",
       [](const Config& c) { return fmt::format("{}", fmt::join(c.fsdp_config.transformer_layer_cls_to_wrap, ",")); }},
  };
  for (const Sample& sample : samples) {
    SCOPED_TRACE(sample.path);
    EXPECT_EQ(resolve(kFsdp).origins.at(sample.path), "default");
    const std::string text = kFsdp + sample.file + "\n";
    const std::string in_file = without_folder(resolve(text).origins.at(sample.path));
    EXPECT_TRUE(in_file.starts_with("f.yaml:6:")) << in_file;

    setenv(sample.variable, sample.in_environment, 1);
    const Plan environment = resolve(text);
    EXPECT_EQ(environment.origins.at(sample.path), std::string("environment ") + sample.variable);
    EXPECT_EQ(sample.value(environment.config), sample.in_environment);

    const Plan flag = resolve(text, {{sample.path, sample.in_flag, "--flag"}});
    EXPECT_EQ(flag.origins.at(sample.path), "--flag");
    EXPECT_EQ(sample.value(flag.config), sample.in_flag);
    unsetenv(sample.variable);
  }
}

TEST_F(Environment, ReadsMachineNumbersOfSchedulers) {
  const std::map<std::string, std::string> variables{
      {"WORLD_SIZE", "2"}, {"RANK", "1"}, {"MASTER_ADDR", "head"}, {"MASTER_PORT", "23456"}};
  for (const auto& [name, value] : variables) setenv(name.c_str(), value.c_str(), 1);
  const Plan plan = resolve(kFsdp);
  EXPECT_EQ(plan.config.num_machines, 2);
  EXPECT_EQ(plan.config.machine_rank, 1);
  EXPECT_EQ(plan.config.main_process_ip, "head");
  EXPECT_EQ(plan.config.main_process_port, 23456);
  EXPECT_EQ(plan.config.num_processes, 2);
  EXPECT_EQ(plan.origins.at("machine_rank"), "environment RANK");
  EXPECT_EQ(
      machine_reading(plan),
      "environment: WORLD_SIZE=2 RANK=1 MASTER_ADDR=head MASTER_PORT=23456 without LOCAL_RANK: read as machine 1 of "
      "2, with 1 rank each");
  EXPECT_EQ(resolve(kFsdp, {{"machine_rank", "0", "--node_rank"}}).config.machine_rank, 0) << "a flag wins";

  setenv("PET_NNODES", "1:4", 1);
  const Plan range = resolve(kFsdp, {{"num_processes", "4", "--num_processes"}});
  EXPECT_EQ(range.config.num_machines, 4);
  EXPECT_EQ(range.config.min_machines, 1);
  EXPECT_NE(machine_reading(range).find("environment: PET_NNODES=1:4 RANK=1 "), std::string::npos);
  unsetenv("PET_NNODES");

  const std::string alone = kLeast;
  EXPECT_EQ(resolve(alone).config.num_machines, 1);
  EXPECT_NE(warnings(alone).find("WORLD_SIZE 2 and RANK 1 are not used"), std::string::npos);
  setenv("WORLD_SIZE", "1", 1);
  EXPECT_EQ(resolve(kFsdp).config.num_machines, 1);
  EXPECT_EQ(warnings(kFsdp), "");
  for (const auto& [name, value] : variables) unsetenv(name.c_str());
}

TEST_F(Environment, ListsVariablesOfLibraries) {
  setenv("NCCL_DEBUG", "INFO", 1);
  setenv("GLOO_SOCKET_IFNAME", "eth0", 1);
  const std::vector<std::string> found = vendor_variables();
  EXPECT_EQ(std::count(found.begin(), found.end(), "NCCL_DEBUG=INFO"), 1);
  EXPECT_EQ(std::count(found.begin(), found.end(), "GLOO_SOCKET_IFNAME=eth0"), 1);
  unsetenv("NCCL_DEBUG");
  unsetenv("GLOO_SOCKET_IFNAME");
}

TEST_F(Environment, VariableSelectsStrategy) {
  const std::string text = "num_processes: 2\nuse_cpu: true\nmodel: {path: m}\ndata: {train: {path: a.txt}}\n";
  EXPECT_NE(problems(text).find("distributed_type is required"), std::string::npos);
  setenv("ACCELERATE_USE_FSDP", "false", 1);
  EXPECT_NE(problems(text).find("distributed_type is required"), std::string::npos);
  setenv("ACCELERATE_USE_FSDP", "true", 1);
  const Plan plan = resolve(text);
  EXPECT_EQ(plan.config.distributed_type, DistributedType::kFsdp);
  EXPECT_EQ(plan.origins.at("distributed_type"), "environment ACCELERATE_USE_FSDP");
}

TEST_F(Environment, EmptyNoneAndAutoSetNothing) {
  setenv("FSDP_MIN_NUM_PARAMS", "", 1);
  setenv("ACCELERATE_GRADIENT_CLIPPING", "none", 1);
  setenv("ACCELERATE_GRADIENT_ACCUMULATION_STEPS", "auto", 1);
  const Plan plan = resolve(kFsdp + "training: {max_grad_norm: 0.5}\n");
  EXPECT_EQ(plan.config.training.max_grad_norm, 0.5);
  EXPECT_EQ(plan.origins.at("training.gradient_accumulation_steps"), "default");
}

TEST_F(Environment, ReportsBadValues) {
  setenv("FSDP_VERSION", "two", 1);
  setenv("ACCELERATE_USE_CPU", "perhaps", 1);
  EXPECT_EQ(problems(kFsdp),
            "environment ACCELERATE_USE_CPU: use_cpu must be true or false; is 'perhaps'\n"
            "environment FSDP_VERSION: fsdp_config.fsdp_version must be an integer; is 'two'");
}

TEST_F(Environment, KnowsVariablesOfAcceleratesLauncher) {
  const std::vector<std::string> known = known_variables();
  for (const char* name : {"ACCELERATE_MIXED_PRECISION",
                           "OMP_NUM_THREADS",
                           "ACCELERATE_DEBUG_MODE",
                           "ACCELERATE_USE_CPU",
                           "ACCELERATE_USE_FSDP",
                           "FSDP_VERSION",
                           "FSDP_SHARDING_STRATEGY",
                           "FSDP_RESHARD_AFTER_FORWARD",
                           "FSDP_OFFLOAD_PARAMS",
                           "FSDP_MIN_NUM_PARAMS",
                           "FSDP_AUTO_WRAP_POLICY",
                           "FSDP_TRANSFORMER_CLS_TO_WRAP",
                           "FSDP_BACKWARD_PREFETCH",
                           "FSDP_STATE_DICT_TYPE",
                           "FSDP_FORWARD_PREFETCH",
                           "FSDP_USE_ORIG_PARAMS",
                           "FSDP_CPU_RAM_EFFICIENT_LOADING",
                           "FSDP_SYNC_MODULE_STATES",
                           "FSDP_ACTIVATION_CHECKPOINTING",
                           "FSDP_ACTIVATION_CHECKPOINTING_OFFLOAD",
                           "FSDP_IGNORED_MODULES",
                           "ACCELERATE_USE_DEEPSPEED",
                           "ACCELERATE_DEEPSPEED_ZERO_STAGE",
                           "ACCELERATE_GRADIENT_ACCUMULATION_STEPS",
                           "ACCELERATE_GRADIENT_CLIPPING",
                           "ACCELERATE_DEEPSPEED_OFFLOAD_OPTIMIZER_DEVICE",
                           "ACCELERATE_DEEPSPEED_OFFLOAD_PARAM_DEVICE",
                           "ACCELERATE_DEEPSPEED_ZERO3_INIT",
                           "ACCELERATE_DEEPSPEED_ZERO3_SAVE_16BIT_MODEL",
                           "ACCELERATE_DEEPSPEED_CONFIG_FILE",
                           "ACCELERATE_DEEPSPEED_MOE_LAYER_CLS_NAMES",
                           "ACCELERATE_USE_MEGATRON_LM",
                           "MEGATRON_LM_TP_DEGREE",
                           "MEGATRON_LM_PP_DEGREE",
                           "MEGATRON_LM_NUM_MICRO_BATCHES",
                           "MEGATRON_LM_SEQUENCE_PARALLELISM",
                           "MEGATRON_LM_RECOMPUTE_ACTIVATIONS",
                           "MEGATRON_LM_USE_DISTRIBUTED_OPTIMIZER",
                           "MEGATRON_LM_GRADIENT_CLIPPING",
                           "PARALLELISM_CONFIG_DP_REPLICATE_SIZE",
                           "PARALLELISM_CONFIG_DP_SHARD_SIZE",
                           "PARALLELISM_CONFIG_TP_SIZE",
                           "PARALLELISM_CONFIG_CP_SIZE",
                           "PARALLELISM_CONFIG_CP_COMM_STRATEGY",
                           "PARALLELISM_CONFIG_SP_SIZE"}) {
    EXPECT_EQ(std::count(known.begin(), known.end(), name), 1) << name;
  }
}

/// A separate home folder for the default files.
class DefaultFiles : public Given {
 protected:
  DefaultFiles() {
    for (const char* name : {"TRAINER_CONFIG", "HF_HOME", "XDG_CACHE_HOME"}) unsetenv(name);
    setenv("HOME", folder_.c_str(), 1);
  }

  std::string make(const std::string& name) {
    std::filesystem::create_directories((folder_ / name).parent_path());
    return write(name, "distributed_type: NO\n");
  }
};

TEST_F(DefaultFiles, OursTakesPrecedenceOverAccelerates) {
  EXPECT_EQ(find_default_file().path, "");
  const std::string cache = make(".cache/huggingface/accelerate/default_config.yaml");
  EXPECT_EQ(find_default_file().path, cache);
  EXPECT_EQ(find_default_file().note, "using Accelerate's file " + cache);
  const std::string own = make(".config/trainer/default_config.yaml");
  EXPECT_EQ(find_default_file().path, own);
  setenv("TRAINER_CONFIG", "/elsewhere/x.yaml", 1);
  EXPECT_EQ(find_default_file().path, "/elsewhere/x.yaml");
  EXPECT_EQ(own_default_file(), "/elsewhere/x.yaml");
}

TEST_F(DefaultFiles, AcceleratesCacheFollowsEnvironment) {
  make(".cache/huggingface/accelerate/default_config.yaml");
  const std::string xdg = make("xdg/huggingface/accelerate/default_config.yaml");
  setenv("XDG_CACHE_HOME", (folder_ / "xdg").c_str(), 1);
  EXPECT_EQ(find_default_file().path, xdg);
  const std::string home = make("hf/accelerate/default_config.yaml");
  setenv("HF_HOME", (folder_ / "hf").c_str(), 1);
  EXPECT_EQ(find_default_file().path, home);
  setenv("HF_HOME", "~/hf", 1);
  EXPECT_EQ(find_default_file().path, home);
}

}  // namespace
}  // namespace trainer::config
