// The top of the file: Accelerate's keys, then our sections.
#include "engine/config/machine/device.h"
#include "engine/config/tables.h"

namespace trainer::config {
namespace {

bool fsdp(const Config& config) {
  return config.distributed_type == DistributedType::kFsdp;
}
bool deepspeed(const Config& config) {
  return config.distributed_type == DistributedType::kDeepspeed;
}
bool megatron(const Config& config) {
  return config.distributed_type == DistributedType::kMegatronLm;
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
  const char* const tpu = "it is for TPUs";
  const char* const sagemaker = "it is for SageMaker";
  static const Entries entries = table<C>(
      // Accelerate's.
      option("compute_environment", &C::compute_environment)
          .accelerate()
          .help("Where ranks run; SageMaker is not supported.")
          .one_of({"LOCAL_MACHINE", "AMAZON_SAGEMAKER"}),
      option("distributed_type", &C::distributed_type)
          .accelerate()
          .help(
              "Parallelism: one process, data parallel, fully sharded, or as configured for DeepSpeed or Megatron-LM.")
          .supported({DistributedType::kNo, DistributedType::kMultiCpu, DistributedType::kMultiGpu,
                      DistributedType::kFsdp, DistributedType::kDeepspeed, DistributedType::kMegatronLm,
                      DistributedType::kDataParallel}),
      option("num_processes", &C::num_processes)
          .accelerate()
          .help("Number of ranks on all machines together. Left out, one machine has a rank for each of its GPUs (of "
                "those in CUDA_VISIBLE_DEVICES or gpu_ids). Required on CPUs and on several machines, unless "
                "distributed_type is NO.")
          .at_least(1)
          .at_most(4096)
          .harmless({"1"})
          .when("distributed_type is not NO", several_ranks),
      option("num_machines", &C::num_machines)
          .accelerate()
          .help("Number of machines. \"1:4\": at least 1 and at most 4; when a machine is lost or joins, the run "
                "continues at the new size and makes the same updates.")
          .at_least(1),
      option("min_machines", &C::min_machines)
          .help("Fewest machines with which the run continues when others are lost; lost machines can rejoin. "
                "num_machines: \"1:4\" sets both. 0: all.")
          .at_least(0)
          .when("num_machines is above 1", several_machines),
      option("machine_rank", &C::machine_rank)
          .accelerate()
          .help("Rank of this machine, from 0.")
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
          .help("Port on machine 0. 0: 29500.")
          .at_least(0)
          .at_most(65535)
          .when("num_machines is above 1", several_machines),
      option("max_restarts", &C::max_restarts)
          .help("How many times all ranks are restarted from the newest checkpoint after a rank or a machine is lost. "
                "0: the run ends instead. Default: 3 if num_machines is a range, as in torch's LaunchConfig, otherwise "
                "0. A machine that joins costs no restart.")
          .at_least(0),
      option("debug", &C::debug)
          .accelerate()
          .help("Checks the shapes of tensors in collectives, and logs more.")
          .ask("Should distributed operations be checked while running for errors? This can avoid timeout issues but "
               "will be slower.")
          .env("ACCELERATE_DEBUG_MODE")
          .when("distributed_type is not NO", several_ranks),
      option("use_cpu", &C::use_cpu)
          .accelerate()
          .env("ACCELERATE_USE_CPU")
          .ask("Do you want to run your training on CPU only (even if a GPU / Apple Silicon / Ascend NPU device is "
               "available)?")
          .help("Trains on the CPU even where there is a GPU. (GPUs need a build with TRAINER_CUDA: docs/gpu.md.)"),
      comma_list("gpu_ids", &C::gpu_ids)
          .accelerate()
          .omitted()
          .help("GPUs of each machine to use, one per rank in this order; sets CUDA_VISIBLE_DEVICES of the ranks.")
          .one_of({"all"}, "the numbers of GPUs, separated by commas")
          .harmless({"all"})
          .when("ranks train on GPUs", asks_for_gpus),
      option("devices", &C::devices)
          .help("Devices of the single DATA_PARALLEL process, such as [cpu, cpu]. Each takes a part of every batch.")
          .when("distributed_type is DATA_PARALLEL", data_parallel),
      section("fsdp_config", &C::fsdp_config, fsdp_table())
          .accelerate()
          .help("How FSDP shards the model.")
          .when("distributed_type is FSDP", fsdp),
      section("deepspeed_config", &C::deepspeed_config, deepspeed_table())
          .accelerate()
          .help("DeepSpeed's section of Accelerate's file. Its keys are translated to options of this engine; "
                "DeepSpeed is not used.")
          .when("distributed_type is DEEPSPEED", deepspeed),
      section("megatron_lm_config", &C::megatron_lm_config, megatron_table())
          .accelerate()
          .help("Megatron-LM's section of Accelerate's file. Its keys are translated to options of this engine; "
                "Megatron-LM is not used.")
          .when("distributed_type is MEGATRON_LM", megatron),
      section("parallelism_config", &C::parallelism_config, parallelism_table())
          .accelerate()
          .help("The device mesh; its sizes multiply to num_processes."),
      option("num_cpu_threads_per_process", &C::num_cpu_threads_per_process)
          .help("Threads per rank. 0: one.")
          .env("OMP_NUM_THREADS")
          .flag("--num_cpu_threads_per_process")
          .at_least(0)
          .at_most(4096),
      option("mixed_precision", &C::mixed_precision)
          .accelerate()
          .help("Compute dtype of linear layers. Parameters stay in fp32.")
          .env("ACCELERATE_MIXED_PRECISION")
          .ask("Do you wish to use mixed precision?"),

      // Keys of Accelerate's files that have no effect here.
      no_effect("downcast_bf16", tpu).flag("--downcast_bf16").accelerate().written(text("no")).of<bool>(),
      option("enable_cpu_affinity", &C::enable_cpu_affinity)
          .accelerate()
          .env("ACCELERATE_CPU_AFFINITY")
          .help("Binds each rank to the CPUs of its GPU's NUMA node.")
          .when("ranks train on GPUs", asks_for_gpus),
      no_effect("main_training_function", "there is no training script")
          .flag("--main_training_function")
          .accelerate()
          .written(bare("main"))
          .harmless({"main"}),
      no_effect("rdzv_backend", "ranks always rendezvous at the launcher")
          .flag("--rdzv_backend")
          .accelerate()
          .written(bare("static"))
          .harmless({"static"}),
      no_effect("same_network", "machines rendezvous at main_process_ip")
          .flag("--same_network")
          .accelerate()
          .written(bare("true"))
          .harmless({"true", "false"})
          .of<bool>(),
      no_effect("tpu_env", tpu).accelerate().written(Node::list({})), no_effect("tpu_name", tpu).accelerate(),
      no_effect("tpu_use_cluster", tpu).accelerate().written(bare("false")).of<bool>(),
      no_effect("tpu_use_sudo", tpu).flag("--tpu_use_sudo").accelerate().written(bare("false")).of<bool>(),
      no_effect("tpu_vm", tpu).accelerate(), no_effect("tpu_zone", tpu).accelerate(),
      no_effect("tpu_command_file", tpu).accelerate(), no_effect("command_file", tpu).accelerate(),
      no_effect("commands", tpu).accelerate(), no_effect("ec2_instance_type", sagemaker).accelerate(),
      no_effect("iam_role_name", sagemaker).accelerate(), no_effect("image_uri", sagemaker).accelerate(),
      no_effect("profile", sagemaker).accelerate(), no_effect("region", sagemaker).accelerate(),
      no_effect("base_job_name", sagemaker).accelerate(), no_effect("pytorch_version", sagemaker).accelerate(),
      no_effect("transformers_version", sagemaker).accelerate(), no_effect("py_version", sagemaker).accelerate(),
      no_effect("sagemaker_inputs_file", sagemaker).accelerate(),
      no_effect("sagemaker_metrics_file", sagemaker).accelerate(), no_effect("additional_args", sagemaker).accelerate(),
      no_effect("dynamo_backend", "there is no Python code to compile")
          .flag("--dynamo_backend")
          .accelerate()
          .env("ACCELERATE_DYNAMO_BACKEND"),
      group("dynamo_config", "torch.compile's settings.", dynamo_table()).accelerate(),
      group("fp8_config", "Settings of fp8.", fp8_table()).accelerate(),
      group("mpirun_config", "Ranks started by mpirun.", mpirun_table()).accelerate(),
      no_effect("use_ipex", "PyTorch is not used").accelerate().of<bool>(),
      group("tp_config", "Accelerate's older section for the size of tensor parallelism.", tp_table()).accelerate(),
      group("ipex_config", "Intel's extension of PyTorch.", ipex_table()).accelerate(),
      translated("fp16", "An older spelling of mixed_precision: fp16.").accelerate().of<bool>(),

      // Ours.
      option("seed", &C::seed).help("Random seed of weights, sample order and dropout.").at_least(0),
      option("deterministic", &C::deterministic)
          .help("Makes two runs on the same kind of machine bitwise identical: uses only deterministic algorithms, and "
                "refuses to resume under other conditions."),
      option("output_dir", &C::output_dir)
          .help("Folder for checkpoints, metrics, logs and the final model.")
          .ask("Which folder should the results go to?")
          .path(),
      section("model", &C::model, model_table()).help("The model to train."),
      section("tokenizer", &C::tokenizer, tokenizer_table()).help("The tokenizer."),
      section("data", &C::data, data_table()).help("The training and validation data."),
      section("lora", &C::lora, lora_table()).help("Adapters, with PEFT's names. Absent: every weight is trained."),
      section("dpo", &C::dpo, dpo_table())
          .help(
              "Learns preferences from pairs of a chosen and a rejected reply by Direct Preference Optimization, with "
              "TRL's names; `dpo: {}` has its defaults. Absent: the loss is the cross-entropy."),
      section("training", &C::training, training_table())
          .help("Training hyperparameters, with TrainingArguments' names."),
      section("checkpoint", &C::checkpoint, checkpoint_table()).help("When checkpoints are saved and resumed."),
      section("evaluation", &C::evaluation, evaluation_table())
          .help("Metrics and predictions on the validation samples."),
      section("logging", &C::logging, logging_table()).help("What is logged, and where."));
  return entries;
}

}  // namespace trainer::config
