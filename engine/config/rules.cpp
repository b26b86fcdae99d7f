#include "engine/config/rules.h"

#include <algorithm>
#include <filesystem>

#include <fmt/ranges.h>

#include "engine/config/device.h"
#include "engine/config/judge.h"
#include "engine/config/machines.h"
#include "engine/config/optim_args.h"
#include "engine/config/tables.h"

namespace trainer::config {
namespace {

/// Devices of a process, each of which takes a micro-batch.
int64_t devices_of(const Config& config) {
  const bool several = config.distributed_type == DistributedType::kDataParallel;
  return several ? std::max<int64_t>(1, std::ssize(config.devices)) : 1;
}

void distribution(const Config& config, Judge& judge) {
  if (!judge.is_set("distributed_type")) {
    judge.refuse("distributed_type", "distributed_type is required: NO, MULTI_CPU or FSDP");
  }
}

/// The key that says how ranks share the work, with its value: distributed_type, unless another one was translated.
std::pair<std::string, std::string> type_as_given(const Config& config, const Judge& judge) {
  return judge.asked_by("distributed_type", "distributed_type", name_of(config.distributed_type));
}

void ranks(const Config& config, Judge& judge) {
  if (judge.failed("distributed_type")) return;
  const bool given = judge.is_set("num_processes");
  const bool devices = config.distributed_type == DistributedType::kDataParallel;
  const bool alone = config.distributed_type == DistributedType::kNo || devices;
  if (alone && given && config.num_processes > 1) {
    judge.refuse("num_processes",
                 "num_processes is {}, but distributed_type {} runs one process: use MULTI_CPU or FSDP",
                 config.num_processes, name_of(config.distributed_type));
  } else if (!alone && !given) {
    const auto [key, value] = type_as_given(config, judge);
    judge.refuse("num_processes", "num_processes is required when {} is {}", key, value);
  }
}

void devices(const Config& config, Judge& judge) {
  if (config.distributed_type != DistributedType::kDataParallel) return;
  if (config.devices.empty())
    judge.refuse("devices", "devices is required when distributed_type is DATA_PARALLEL: as [cpu, cpu]");
  for (const std::string& name : config.devices)
    if (name != "cpu")
      judge.refuse("devices", "devices: {} is not supported by this build, which has no GPU support; cpu is",
                   shown(name));
}

void machines(const Config& config, Judge& judge) {
  if (config.num_machines <= 1 || judge.failed("num_machines")) return;
  if (config.distributed_type == DistributedType::kNo && judge.is_set("distributed_type")) {
    judge.refuse("num_machines", "num_machines is {}, but distributed_type NO runs one process: use MULTI_CPU or FSDP",
                 config.num_machines);
    return;
  }
  if (config.training.ddp_backend == DdpBackend::kMpi)
    judge.refuse("training.ddp_backend",
                 "training.ddp_backend is mpi and num_machines is {}: MPI's ranks are started on one machine; between "
                 "machines say gloo",
                 config.num_machines);
  if (config.machine_rank >= config.num_machines)
    judge.refuse("machine_rank", "machine_rank is {}, but num_machines is {}: machines are numbered from 0",
                 config.machine_rank, config.num_machines);
  if (config.main_process_ip.empty())
    judge.refuse("main_process_ip", "main_process_ip is required when num_machines is {}: the address of machine 0",
                 config.num_machines);
  if (config.main_process_ip == "0.0.0.0" || config.main_process_ip == "::")
    judge.refuse("main_process_ip",
                 "main_process_ip is {}, which is every interface: give the address at which the other machines reach "
                 "machine 0",
                 config.main_process_ip);
  if (config.num_processes % config.num_machines != 0)
    judge.refuse(
        "num_processes",
        "num_processes is {} on {} machines: it counts the ranks of all of them, and every machine runs equally "
        "many (--nproc_per_node counts those of one)",
        config.num_processes, config.num_machines);
}

void range_of_machines(const Config& config, Judge& judge) {
  if (judge.failed("num_machines")) return;
  const auto [key, value] = judge.asked_by("min_machines", "min_machines", std::to_string(config.min_machines));
  if (config.min_machines > config.num_machines && key == "num_machines")
    return judge.refuse("min_machines", "num_machines is {}: the smaller number comes first", value);
  if (config.num_machines <= 1) return;
  if (config.min_machines > config.num_machines)
    return judge.refuse("min_machines", "min_machines is {}, but num_machines is {}: it can't be more",
                        config.min_machines, config.num_machines);
  const std::vector<int64_t> unusable = unusable_machines(config);
  if (unusable.empty() || judge.failed("num_processes")) return;
  judge.warn("num_machines",
             "the run goes on with {} of its {} machines, but not with {}: their ranks can't be laid out as the sizes "
             "of the mesh ask",
             fmt::join(usable_machines(config), " or "), config.num_machines, fmt::join(unusable, " or "));
}

void device(const Config& config, Judge& judge) {
  if (judge.failed("use_cpu") || judge.failed("training.ddp_backend")) return;
  const DdpBackend backend = config.training.ddp_backend;
  if (!asks_for_gpus(config)) {
    if (backend == DdpBackend::kNccl)
      judge.refuse(
          "training.ddp_backend",
          "training.ddp_backend is nccl, which carries tensors of NVIDIA's GPUs, but distributed_type {} trains "
          "on the CPU: say gloo or mpi",
          name_of(config.distributed_type));
    return;
  }
  const std::string lacking = lacking_for_gpus(config);
  if (config.distributed_type == DistributedType::kNo) {  // Accelerate too trains on the CPU where there is no GPU
    if (!lacking.empty() && std::filesystem::exists("/dev/nvidia0"))
      judge.warn("use_cpu", "use_cpu is false, but {}: training runs on the CPU", lacking);
    return;
  }
  const auto [key, value] = type_as_given(config, judge);
  if (!lacking.empty())
    judge.refuse_run(
        "distributed_type",
        "{} {} with use_cpu false trains on GPUs, and {}: --cpu (or use_cpu: true) rehearses it on the CPU", key, value,
        lacking);
  if (backend == DdpBackend::kMpi)
    judge.refuse(
        "training.ddp_backend",
        "training.ddp_backend is mpi, which carries tensors of the CPU, but {} {} with use_cpu false trains on "
        "GPUs: say nccl or gloo",
        key, value);
}

/// What is given must be all ranks once it says into how many shards a copy of the model is cut; before that, the other
/// ranks are further shards or copies, so it must divide them.
void sizes_fit_ranks(const Config& config, Judge& judge) {
  const ParallelismConfig& mesh = *config.parallelism_config;
  const std::pair<const char*, int64_t> sizes[] = {{"parallelism_config_dp_shard_size", mesh.dp_shard_size},
                                                   {"parallelism_config_dp_replicate_size", mesh.dp_replicate_size},
                                                   {"parallelism_config_tp_size", mesh.tp_size},
                                                   {"parallelism_config_cp_size", mesh.cp_size},
                                                   {"parallelism_config_pp_size", mesh.pp_size}};
  const int64_t ranks = std::max<int64_t>(1, config.num_processes);
  int64_t product = 1;
  std::string key;
  for (const auto& [name, size] : sizes) {
    product *= std::max<int64_t>(1, size);  // one below 1 is refused by its own option
    if (size > 1 && key.empty()) key = name;
  }
  const std::string path = "parallelism_config." + key;
  if (mesh.dp_shard_size > 1 && product != ranks) {
    judge.refuse(path, "the sizes of parallelism_config multiply to {}, but num_processes is {}: make them equal",
                 product, ranks);
  } else if (ranks % product != 0) {
    const auto [asked, value] = judge.asked_by(path, key, std::to_string(product));
    if (value == std::to_string(product))
      judge.refuse(path, "{} is {}, but num_processes is {}: it must be a multiple of that", asked, value, ranks);
    else
      judge.refuse(
          path,
          "the sizes of parallelism_config multiply to {}, but num_processes is {}: it must be a multiple of that",
          product, ranks);
  }
}

void mesh(const Config& config, Judge& judge) {
  if (!config.parallelism_config) return;
  const ParallelismConfig& mesh = *config.parallelism_config;
  if (mesh.sp_size <= 1) return sizes_fit_ranks(config, judge);
  const std::string option = "parallelism_config_sp_size", path = "parallelism_config." + option;
  const auto [asked, value] = judge.asked_by(path, option, std::to_string(mesh.sp_size));
  judge.refuse(path,
               "{} is {}: DeepSpeed's scheme, which exchanges heads for rows, is not there; parallelism_config_cp_size "
               "spreads a sequence over ranks",
               asked, value);
}

void pipeline(const Config& config, Judge& judge) {
  if (!config.parallelism_config || config.parallelism_config->pp_size <= 1) return;
  const std::string option = "parallelism_config_pp_size", path = "parallelism_config." + option;
  const auto [asked, value] = judge.asked_by(path, option, std::to_string(config.parallelism_config->pp_size));
  if (config.parallelism_config->pp_chunks > 1 && config.parallelism_config->pp_last_blocks > 0)
    judge.refuse("parallelism_config.parallelism_config_pp_chunks",
                 "parallelism_config_pp_chunks is {}, but the last stage is to have {} layers: give one of them",
                 config.parallelism_config->pp_chunks, config.parallelism_config->pp_last_blocks);
  if (config.lora && config.lora->peft_type == "PREFIX_TUNING")
    judge.refuse("lora.peft_type",
                 "lora.peft_type is PREFIX_TUNING, whose prefix is made for all blocks at once, but {} is {}: 1 is "
                 "supported",
                 asked, value);
}

/// Where ranks share each sequence.
void context(const Config& config, Judge& judge) {
  if (!config.parallelism_config || config.parallelism_config->cp_size <= 1) return;
  const std::string option = "parallelism_config_cp_size", path = "parallelism_config." + option;
  const auto [asked, value] = judge.asked_by(path, option, std::to_string(config.parallelism_config->cp_size));
  if (config.parallelism_config->pp_size > 1)
    judge.refuse(
        path,
        "{} is {}, but parallelism_config_pp_size is {}: the stages of a pipeline pass on whole sequences; one "
        "of them must be 1",
        asked, value, config.parallelism_config->pp_size);
  if (config.data.task != Task::kCausalLm)
    judge.refuse(path,
                 "{} is {}, but data.task is {}: only where a token sees those before it, as in causal_lm, can ranks "
                 "share a sequence",
                 asked, value, name_of(config.data.task));
}

void model(const Config& config, Judge& judge) {
  const bool path = !config.model.path.empty();
  const bool built = !config.model.config.empty();
  if (!path && !built) {
    judge.refuse("model", "model.path (a Hugging Face folder) or model.config (built from scratch) is required");
  } else if (path && built) {
    judge.refuse("model.config", "model.path and model.config exclude each other: give one of them");
  }
}

void tokenizer(const Config& config, Judge& judge) {
  if (config.data.task == Task::kImageClassification || config.data.train.path.empty()) return;
  if (config.model.config.empty() || !config.model.path.empty() || !config.tokenizer.path.empty()) return;
  judge.refuse("tokenizer.path",
               "tokenizer.path is required with model.config; `trainer tokenize train` makes one from text");
}

void data(const Config& config, Judge& judge) {
  if (config.data.train.path.empty()) judge.refuse_run("data.train.path", "data.train.path is required");
  if (config.data.train.delimiter.empty())
    judge.refuse("data.train.delimiter", "data.train.delimiter must not be empty");
  if (config.data.megatron.reset_position_ids && !config.data.megatron.reset_attention_mask) {
    judge.refuse("data.megatron.reset_position_ids",
                 "data.megatron.reset_position_ids needs data.megatron.reset_attention_mask: true: tokens of two "
                 "documents with equal positions would see each other");
  }
}

/// What a sample is must fit where it comes from.
void task(const Config& config, Judge& judge) {
  const DataConfig& d = config.data;
  const bool causal = d.task == Task::kCausalLm, images = d.task == Task::kImageClassification;
  const auto refuse_task = [&](const std::string& option, const std::string& value, const char* wanted) {
    judge.refuse(option, "{} is {}, which needs data.task: {}; it is {}", option, value, wanted, name_of(d.task));
  };
  if (d.train.format == DataFormat::kMegatron && !causal) refuse_task("data.train.format", "megatron", "causal_lm");
  if ((d.train.format == DataFormat::kMnist) != images)
    judge.refuse("data.task",
                 "data.task is {}, but data.train.format is {}: image_classification and mnist go together",
                 name_of(d.task), name_of(d.train.format));
  if (d.dialogue != Dialogue::kNone && !causal) refuse_task("data.dialogue", name_of(d.dialogue), "causal_lm");
  if (d.dialogue != Dialogue::kNone && d.group_texts)
    judge.refuse("data.group_texts", "data.group_texts is for plain texts; data.dialogue is {}", name_of(d.dialogue));
  if (d.target.empty() && !causal && !images)
    judge.refuse("data.target", "data.target is empty: {} needs something to predict", name_of(d.task));
}

void weights(const Config& config, Judge& judge) {
  const DataSource& train = config.data.train;
  if (train.weights.empty()) return;
  if (train.weights.size() != train.path.size())
    judge.refuse("data.train.weights", "data.train.weights has {} numbers, but data.train.path has {} entries",
                 train.weights.size(), train.path.size());
  for (const double weight : train.weights)
    if (!(weight > 0)) judge.refuse("data.train.weights", "data.train.weights must be above 0; one is {}", weight);
}

void validation(const Config& config, Judge& judge) {
  if (config.data.validation.fraction > 0 && !config.data.validation.path.empty()) {
    judge.refuse("data.validation.fraction",
                 "data.validation.fraction and data.validation.path exclude each other: give "
                 "one of them");
  }
}

/// The task of ours that PEFT's name means; "" when there is none.
std::string task_of(const std::string& task_type) {
  if (task_type == "CAUSAL_LM") return "causal_lm";
  if (task_type == "SEQ_2_SEQ_LM") return "seq2seq_lm";
  if (task_type == "SEQ_CLS") return "sequence_classification";
  return "";
}

/// Which layers get an adapter, by PEFT's own demands.
void adapted_layers(const LoraConfig& lora, Judge& judge) {
  const std::string& pattern = lora.target_modules.pattern;
  const auto needs_list = [&](const char* option, bool given) {
    if (given && !pattern.empty())
      judge.refuse(std::string("lora.") + option,
                   "lora.{} goes with a list of target_modules; lora.target_modules is the pattern {}: say it there",
                   option, shown(pattern));
  };
  needs_list("layers_to_transform", !lora.layers_to_transform.empty());
  needs_list("layers_pattern", !lora.layers_pattern.empty());
  if (!lora.layers_pattern.empty() && lora.layers_to_transform.empty())
    judge.refuse("lora.layers_pattern", "lora.layers_pattern needs lora.layers_to_transform: the numbers it counts");
  for (const auto& [layers, rank] : lora.rank_pattern)
    if (rank < 1) judge.refuse("lora.rank_pattern", "lora.rank_pattern: {} is {}; a rank is at least 1", layers, rank);
  const auto& targets = lora.target_modules.names;
  if (lora.peft_type != "IA3" || targets.empty()) return;
  for (const std::string& name : lora.feedforward_modules.names)
    if (std::count(targets.begin(), targets.end(), name) == 0)
      judge.refuse("lora.feedforward_modules", "lora.feedforward_modules has {}, which lora.target_modules [{}] lacks",
                   name, fmt::join(targets, ", "));
}

/// How adapters start.
void adapter_init(const LoraConfig& lora, Judge& judge) {
  const std::string init = lower(lora.init_lora_weights);
  for (const char* known : {"true", "false", "gaussian", "pissa", "olora"})
    if (init == known) return;
  constexpr std::string_view kIterations = "pissa_niter_";
  const std::string count = init.starts_with(kIterations) ? init.substr(kIterations.size()) : "";
  const bool digits = std::all_of(count.begin(), count.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (!count.empty() && count.size() < 4 && digits) return;
  judge.refuse("lora.init_lora_weights",
               "lora.init_lora_weights {} is not supported; true, false, gaussian, pissa, pissa_niter_N (N below 1000) "
               "and olora are",
               shown(init));
}

void prompts(const LoraConfig& lora, Judge& judge) {
  const bool prompt =
      lora.peft_type == "PROMPT_TUNING" || lora.peft_type == "P_TUNING" || lora.peft_type == "PREFIX_TUNING";
  if (prompt && lora.path.empty() && lora.num_virtual_tokens < 1)
    judge.refuse("lora.num_virtual_tokens", "lora.num_virtual_tokens is required when lora.peft_type is {}",
                 lora.peft_type);
  if (lora.peft_type == "PROMPT_TUNING" && lora.prompt_tuning_init == "TEXT" && lora.prompt_tuning_init_text.empty())
    judge.refuse("lora.prompt_tuning_init_text",
                 "lora.prompt_tuning_init_text is required when lora.prompt_tuning_init is TEXT");
  if (lora.peft_type == "P_TUNING" && lora.encoder_dropout > 0)
    judge.refuse("lora.encoder_dropout",
                 "lora.encoder_dropout is {}: the prompt's network has no dropout in this version; 0 is supported",
                 lora.encoder_dropout);
}

void lora(const Config& config, Judge& judge) {
  if (!config.lora) return;
  const LoraConfig& lora = *config.lora;
  const std::vector<std::string> known{"LORA", "IA3", "PREFIX_TUNING", "PROMPT_TUNING", "P_TUNING"};
  if (std::count(known.begin(), known.end(), lora.peft_type) == 0)
    judge.refuse("lora.peft_type", "lora.peft_type {} is not supported by this version; {} are", shown(lora.peft_type),
                 fmt::join(known, ", "));
  adapted_layers(lora, judge);
  adapter_init(lora, judge);
  prompts(lora, judge);
  if (lora.inference_mode) {
    judge.refuse("lora.inference_mode", "lora.inference_mode is true, which leaves nothing to train: set it to false");
  }
  const std::string task = name_of(config.data.task);
  if (!lora.task_type.empty() && task_of(lora.task_type) != task) {
    judge.refuse("lora.task_type", "lora.task_type {} doesn't fit data.task {}", lora.task_type, task);
  }
}

void batch(const Config& config, Judge& judge) {
  const TrainingConfig& training = config.training;
  if (training.global_batch_size == 0 || !judge.is_set("training.gradient_accumulation_steps")) return;
  const ParallelismConfig mesh = config.parallelism_config.value_or(ParallelismConfig{});
  const int64_t data_ranks = std::max<int64_t>(1, config.num_processes / (mesh.tp_size * mesh.cp_size * mesh.pp_size));
  const int64_t ranks = data_ranks * devices_of(config);
  const double product =
      double(training.per_device_train_batch_size) * double(training.gradient_accumulation_steps) * double(ranks);
  if (product == double(training.global_batch_size)) return;
  judge.refuse(
      "training.global_batch_size",
      "training.global_batch_size is {}, but per_device_train_batch_size {} x gradient_accumulation_steps {} x {} "
      "ranks is {}: leave out gradient_accumulation_steps",
      training.global_batch_size, training.per_device_train_batch_size, training.gradient_accumulation_steps, ranks,
      product);
}

void deterministic(const Config& config, Judge& judge) {
  if (!config.deterministic) return;
  if (config.training.auto_find_batch_size)
    judge.refuse(
        "deterministic",
        "deterministic is true, but with training.auto_find_batch_size the free memory decides how samples are "
        "added up: leave one of them out");
  if (config.min_machines > 0 && config.min_machines < config.num_machines)
    judge.refuse(
        "deterministic",
        "deterministic is true, but between min_machines {} and num_machines {} losses decide how many ranks add "
        "up: leave min_machines out",
        config.min_machines, config.num_machines);
}

void local_sgd(const Config& config, Judge& judge) {
  const int64_t steps = config.training.local_sgd_steps;
  if (steps == 0 || judge.failed("distributed_type")) return;
  const bool ddp =
      config.distributed_type == DistributedType::kMultiCpu || config.distributed_type == DistributedType::kMultiGpu;
  if (ddp && !config.parallelism_config) return;
  const auto [key, value] = type_as_given(config, judge);
  judge.refuse("training.local_sgd_steps",
               "training.local_sgd_steps is {}, but {} is {}{}: ranks that train alone need the whole model each, as "
               "under MULTI_CPU",
               steps, key, value, ddp ? " with a parallelism_config" : "");
}

void schedule(const Config& config, Judge& judge) {
  const TrainingConfig& t = config.training;
  const ScheduleConfig& more = t.lr_scheduler_kwargs;
  if (t.lr_scheduler_type == Schedule::kPolynomial && more.lr_end >= t.learning_rate)
    judge.refuse("training.lr_scheduler_kwargs.lr_end", "lr_end is {}, but learning_rate is {}: it must end below",
                 more.lr_end, t.learning_rate);
  if (t.lr_scheduler_type == Schedule::kCosineWithMinLr && (more.min_lr >= 0) == (more.min_lr_rate >= 0))
    judge.refuse("training.lr_scheduler_kwargs.min_lr",
                 "cosine_with_min_lr needs one of min_lr and min_lr_rate in lr_scheduler_kwargs; {} are given",
                 more.min_lr >= 0 ? "both" : "none");
  if (t.lr_scheduler_type == Schedule::kWarmupStableDecay && more.num_decay_steps < 0)
    judge.refuse("training.lr_scheduler_kwargs.num_decay_steps",
                 "warmup_stable_decay needs num_decay_steps in lr_scheduler_kwargs");
}

/// What a run writes must not become what the next one reads, nor take the place of what it starts from.
void output(const Config& config, Judge& judge) {
  if (judge.failed("output_dir") || config.output_dir.empty()) return;
  const auto is_output = [&](const std::string& path) { return path == config.output_dir; };
  const auto& train = config.data.train.path;
  if (std::any_of(train.begin(), train.end(), is_output))
    judge.refuse("output_dir", "output_dir is {}, the folder that data.train.path reads: give the run another one",
                 shown(config.output_dir));
}

void warmup(const Config& config, Judge& judge) {
  const TrainingConfig& t = config.training;
  if (t.max_steps > 0 && t.warmup_steps > static_cast<double>(t.max_steps) && !judge.failed("training.warmup_steps"))
    judge.warn("training.warmup_steps",
               "training.warmup_steps is {}, but max_steps is {}: the learning rate never reaches {}", t.warmup_steps,
               t.max_steps, t.learning_rate);
}

void optimizer(const Config& config, Judge& judge) {
  try {
    read_optim_args(config.training);
  } catch (const ConfigError& error) {
    judge.refuse("training.optim_args", "training.optim_args: {}", error.what());
  }
}

void compression(const Config& config, Judge& judge) {
  const TrainingConfig& t = config.training;
  const bool power_sgd = t.ddp_comm_hook == CommHook::kPowerSgd || t.ddp_comm_hook == CommHook::kBatchedPowerSgd;
  if (t.ddp_comm_hook == CommHook::kNo || config.distributed_type != DistributedType::kMultiCpu) return;
  if (config.parallelism_config && config.parallelism_config->pp_size > 1)
    judge.refuse("training.ddp_comm_hook", "training.ddp_comm_hook: {} is not supported with a pipeline: leave it out",
                 name_of(t.ddp_comm_hook));
  if (t.local_sgd_steps > 0)
    judge.warn("training.ddp_comm_hook",
               "training.ddp_comm_hook: {} has no effect with local_sgd_steps, which exchanges no gradients",
               name_of(t.ddp_comm_hook));
  if (!power_sgd) return;
  if (config.mixed_precision == MixedPrecision::kFp16)
    judge.refuse("training.ddp_comm_hook",
                 "training.ddp_comm_hook: {} is not supported with mixed_precision fp16: a gradient that overflows "
                 "would stay in what it keeps from update to update; use bf16",
                 name_of(t.ddp_comm_hook));
  if (t.ddp_comm_state_option.use_error_feedback || t.ddp_comm_state_option.warm_start)
    judge.warn("training.ddp_comm_hook",
               "training.ddp_comm_hook: {}: a checkpoint doesn't hold what PowerSGD keeps from update to update, so a "
               "resumed run will differ a little from one that was not stopped",
               name_of(t.ddp_comm_hook));
}

void generation(const Config& config, Judge& judge) {
  if (config.evaluation.generate && !validates(config)) {
    judge.refuse("evaluation.generate",
                 "evaluation.generate needs validation samples: give data.validation.fraction or "
                 "data.validation.path");
  }
}

void accuracy(const Config& config, Judge& judge) {
  const auto& metrics = config.evaluation.metrics;
  const bool accuracy = std::find(metrics.begin(), metrics.end(), "accuracy") != metrics.end();
  const bool classes =
      config.data.task == Task::kSequenceClassification || config.data.task == Task::kImageClassification;
  if (accuracy && !classes && !config.evaluation.generate && validates(config)) {
    judge.refuse("evaluation.metrics",
                 "evaluation.metrics: accuracy compares generated text with labels and needs "
                 "evaluation.generate: true");
  }
}

}  // namespace

const std::vector<Rule>& rules() {
  static const std::vector<Rule> all{
      {"distribution-given", "How ranks share the work is never guessed.", distribution},
      {"ranks-fit-distribution", "One process for NO; a number of ranks for everything else.", ranks},
      {"devices-given", "DATA_PARALLEL runs one process on several devices, which the file names.", devices},
      {"machines-fit", "Every machine has a number, knows machine 0's address, and runs equally many ranks.", machines},
      {"range-of-machines", "A run that outlives the loss of machines says how few are enough.", range_of_machines},
      {"device-is-there", "What asks for GPUs never runs on a CPU unless the file or --cpu says so.", device},
      {"mesh-fits-ranks", "The sizes of the mesh multiply to the number of ranks.", mesh},
      {"context-fits", "What ranks share of a sequence, every one of them can work on.", context},
      {"pipeline-fits", "A pipeline's stages are whole, and have all their adapters in them.", pipeline},
      {"model-given", "A model is loaded from a folder or built from a configuration.", model},
      {"tokenizer-given", "A model built from scratch brings no tokenizer.", tokenizer},
      {"data-given", "There is nothing to learn from without samples.", data},
      {"task-fits-data", "What a sample is must fit where it comes from.", task},
      {"weights-fit-paths", "A mixture has one weight for each of its sources.", weights},
      {"one-validation", "Validation samples are a part of the training samples or have files of their own.",
       validation},
      {"lora-fits", "Adapters must be of a known kind, trainable, and made for the task.", lora},
      {"batch-product", "The global batch is what all ranks take in all forward passes of an update.", batch},
      {"deterministic-is-fixed", "What is to be equal bit for bit may depend on nothing that changes.", deterministic},
      {"local-sgd-has-copies", "Ranks that train alone for a while hold the whole model each.", local_sgd},
      {"output-is-apart", "A run doesn't read what it writes.", output},
      {"warmup-ends", "A warm-up that outlasts the run is told.", warmup},
      {"schedule-is-whole", "A schedule has what its formula needs.", schedule},
      {"optim-args-fit", "An optimiser takes the arguments it has, in their ranges.", optimizer},
      {"compression-fits", "Gradients are made smaller where they are exchanged, and what that costs is said.",
       compression},
      {"generation-has-samples", "Text is generated for validation samples.", generation},
      {"accuracy-has-text", "Accuracy compares generated text, or the class, with the label.", accuracy},
  };
  return all;
}

void check_rules(Draft& draft, const std::string& file, const std::string& job_file, bool to_run) {
  Judge judge(draft, file, job_file, to_run);
  for (const Rule& rule : rules()) {
    judge.rule = rule.id;
    rule.check(draft.config, judge);
  }
  judge.finish();
}

void complete(Config& config) {
  config.deepspeed_config.reset();
  config.megatron_lm_config.reset();
  if (config.num_processes == 0) config.num_processes = 1;
  if (!config.lora || config.lora->peft_type != "LORA") config.training.loraplus_lr_ratio = 0;
  TrainingConfig& t = config.training;
  if (devices_of(config) > 1 && t.global_batch_size == 0)
    t.global_batch_size = t.per_device_train_batch_size * t.gradient_accumulation_steps * devices_of(config);
  if (config.tokenizer.path.empty()) config.tokenizer.path = config.model.path;
}

}  // namespace trainer::config
