// The top of the file: Accelerate's own keys, then our sections.
#include "engine/config/tables.h"

namespace trainer::config {
namespace {

bool several_machines(const Config& config) {
  return config.num_machines > 1;
}
bool fsdp(const Config& config) {
  return config.distributed_type == DistributedType::kFsdp;
}
bool several_ranks(const Config& config) {
  return config.distributed_type != DistributedType::kNo;
}

Node text(const char* value) {
  return Node::scalar(value, true);
}
Node bare(const char* value) {
  return Node::scalar(value);
}

}  // namespace

const Entries& root_table() {
  using C = Config;
  static const Entries entries = table<C>(
      // Accelerate's.
      option("compute_environment", &C::compute_environment)
          .accelerate()
          .help("Where ranks run; SageMaker is not supported.")
          .one_of({"LOCAL_MACHINE", "AMAZON_SAGEMAKER"}),
      option("distributed_type", &C::distributed_type)
          .accelerate()
          .help("How ranks share the work: one process, data parallel, or fully sharded.")
          .ask("How should training be distributed?")
          .supported({DistributedType::kNo, DistributedType::kMultiCpu, DistributedType::kFsdp},
                     "it needs GPU support; with --cpu or use_cpu: true it runs as MULTI_CPU"),
      option("num_processes", &C::num_processes)
          .accelerate()
          .help("Ranks, over all machines. Required unless distributed_type is NO.")
          .ask("How many processes should be used for distributed training?")
          .at_least(1)
          .at_most(4096)
          .harmless({"1"})
          .when("distributed_type is MULTI_CPU or FSDP", several_ranks),
      option("num_machines", &C::num_machines).accelerate().help("Machines.").at_least(1),
      option("machine_rank", &C::machine_rank)
          .accelerate()
          .help("Number of this machine, from 0.")
          .at_least(0)
          .when("num_machines is above 1", several_machines),
      option("main_process_ip", &C::main_process_ip)
          .accelerate()
          .omitted()
          .help("Address of machine 0.")
          .when("num_machines is above 1", several_machines),
      option("main_process_port", &C::main_process_port)
          .accelerate()
          .omitted()
          .help("Port on machine 0.")
          .at_least(0)
          .at_most(65535)
          .when("num_machines is above 1", several_machines),
      option("debug", &C::debug)
          .accelerate()
          .help("Checks the shapes of what ranks exchange, and logs more.")
          .when("distributed_type is MULTI_CPU or FSDP", several_ranks),
      option("use_cpu", &C::use_cpu)
          .accelerate()
          .help("Trains on the CPU even where there is a GPU. This version always does."),
      section("fsdp_config", &C::fsdp_config, fsdp_table())
          .accelerate()
          .help("How FSDP shards the model.")
          .when("distributed_type is FSDP", fsdp),
      option("num_cpu_threads_per_process", &C::num_cpu_threads_per_process)
          .help("Threads of a rank. 0: one.")
          .at_least(0)
          .at_most(4096),
      option("mixed_precision", &C::mixed_precision)
          .accelerate()
          .help("What linear layers compute in. Parameters stay in fp32.")
          .ask("Do you wish to use mixed precision?")
          .supported({MixedPrecision::kNo, MixedPrecision::kBf16},
                     "on a CPU fp16 loses small gradients and is slower; it needs GPU support"),

      // Keys that Accelerate's files have and that mean nothing here.
      no_effect("downcast_bf16").accelerate().written(text("no")),
      no_effect("enable_cpu_affinity").accelerate().written(bare("false")), no_effect("gpu_ids").accelerate(),
      no_effect("main_training_function").accelerate().written(bare("main")),
      no_effect("rdzv_backend").accelerate().written(bare("static")),
      no_effect("same_network").accelerate().written(bare("true")),
      unsupported("tpu_env").accelerate().written(Node::list({})), unsupported("tpu_name").accelerate(),
      unsupported("tpu_use_cluster").accelerate().written(bare("false")),
      unsupported("tpu_use_sudo").accelerate().written(bare("false")), unsupported("tpu_vm").accelerate(),
      unsupported("tpu_zone").accelerate(), unsupported("command_file").accelerate(),
      unsupported("commands").accelerate(), unsupported("deepspeed_config").accelerate(),
      unsupported("dynamo_backend").accelerate(), unsupported("dynamo_config", {"default"}).accelerate(),
      unsupported("fp8_config").accelerate(), unsupported("megatron_lm_config").accelerate(),
      unsupported("mpirun_config").accelerate(),
      unsupported("parallelism_config", {"1", "torch", "allgather", "deepspeed", "sdpa", "true"}).accelerate(),
      translated("fp16", "An older spelling of mixed_precision: fp16.").accelerate(),

      // Ours.
      option("seed", &C::seed).help("Every draw is a function of it: weights, order, dropout.").at_least(0),
      option("output_dir", &C::output_dir)
          .help("Folder for checkpoints, metrics, logs and the final model.")
          .ask("Which folder should the results go to?")
          .path(),
      section("model", &C::model, model_table()).help("What is trained."),
      section("tokenizer", &C::tokenizer, tokenizer_table()).help("How text becomes ids."),
      section("data", &C::data, data_table()).help("What it is trained on."),
      section("lora", &C::lora, lora_table())
          .help("LoRA adapters, by PEFT's names. Absent: every weight is trained.")
          .ask("Do you want to train LoRA adapters instead of all weights?"),
      section("training", &C::training, training_table()).help("How it is trained, by TrainingArguments' names."),
      section("checkpoint", &C::checkpoint, checkpoint_table()).help("When the state is saved and resumed."),
      section("evaluation", &C::evaluation, evaluation_table()).help("What is measured on validation samples."),
      section("logging", &C::logging, logging_table()).help("What is reported."));
  return entries;
}

}  // namespace trainer::config
