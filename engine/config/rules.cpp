#include "engine/config/rules.h"

#include <algorithm>

#include "engine/config/tables.h"

namespace trainer::config {
namespace {

/// What rules say: a problem at the place of `path`, unless something is wrong with that already.
class Judge {
 public:
  Judge(Draft& draft, std::string source)
      : draft_(draft), source_(std::make_shared<const std::string>(std::move(source))) {}

  template <class... Args>
  void refuse(const std::string& path, fmt::format_string<Args...> format, Args&&... args) {
    if (draft_.problems.about(path)) return;
    Mark mark = draft_.mark(path);
    if (!mark.source) mark.source = source_;
    draft_.problems.add(mark, path, fmt::format(format, std::forward<Args>(args)...));
  }

  template <class... Args>
  void warn(const std::string& path, fmt::format_string<Args...> format, Args&&... args) {
    const Mark mark = draft_.mark(path);
    draft_.warnings.push_back((mark.source ? to_string(mark) : *source_) + ": " +
                              fmt::format(format, std::forward<Args>(args)...));
  }

  Draft& draft_;
  std::shared_ptr<const std::string> source_;
};

/// The task of ours that PEFT's name means; "" when there is none.
std::string task_of(const std::string& task_type) {
  if (task_type == "CAUSAL_LM") return "causal_lm";
  if (task_type == "SEQ_2_SEQ_LM") return "seq2seq_lm";
  if (task_type == "SEQ_CLS") return "sequence_classification";
  return "";
}

void check_machines(const Config& config, Judge& judge) {
  if (config.compute_environment != "LOCAL_MACHINE") {
    judge.refuse("compute_environment", "compute_environment {} is not supported; LOCAL_MACHINE is",
                 config.compute_environment);
  }
  if (config.num_machines > 1) {
    judge.refuse("num_machines", "num_machines is {}: more than one machine is not supported by this version",
                 config.num_machines);
  }
}

void check_ranks(const Config& config, Judge& judge) {
  const bool given = judge.draft_.is_set("num_processes");
  if (!judge.draft_.is_set("distributed_type")) {
    judge.refuse("distributed_type", "distributed_type is required: NO, MULTI_CPU or FSDP");
  } else if (config.distributed_type == DistributedType::kNo) {
    if (given && config.num_processes > 1) {
      judge.refuse("num_processes",
                   "num_processes is {}, but distributed_type NO runs one process: use MULTI_CPU or FSDP",
                   config.num_processes);
    }
  } else if (!given) {
    judge.refuse("num_processes", "num_processes is required when distributed_type is {}",
                 name_of(config.distributed_type));
  }
  const bool wants_gpu =
      config.distributed_type == DistributedType::kNo || config.distributed_type == DistributedType::kFsdp;
  if (wants_gpu && !config.use_cpu) {
    judge.warn("use_cpu", "use_cpu is false, but this version has no GPU support: training runs on the CPU");
  }
}

void check_model(const Config& config, Judge& judge) {
  const bool path = !config.model.path.empty();
  const bool built = !config.model.config.empty();
  if (!path && !built) {
    judge.refuse("model", "model.path (a Hugging Face folder) or model.config (built from scratch) is required");
  } else if (path && built) {
    judge.refuse("model.config", "model.path and model.config exclude each other: give one of them");
  }
  if (built && !path && config.tokenizer.path.empty()) {
    judge.refuse("tokenizer.path",
                 "tokenizer.path is required with model.config; `trainer tokenize train` makes one from text");
  }
}

void check_data(const Config& config, Judge& judge) {
  if (config.data.train.path.empty()) judge.refuse("data.train.path", "data.train.path is required");
  if (config.data.validation.fraction > 0 && !config.data.validation.path.empty()) {
    judge.refuse("data.validation.fraction",
                 "data.validation.fraction and data.validation.path exclude each other: give "
                 "one of them");
  }
  if (config.data.train.delimiter.empty())
    judge.refuse("data.train.delimiter", "data.train.delimiter must not be empty");
}

void check_lora(const LoraConfig& lora, const Config& config, Judge& judge) {
  if (lower(lora.peft_type) != "lora") {
    judge.refuse("lora.peft_type", "lora.peft_type {} is not supported by this version; LORA is",
                 shown(lora.peft_type));
  }
  if (lora.inference_mode) {
    judge.refuse("lora.inference_mode", "lora.inference_mode is true, which leaves nothing to train: set it to false");
  }
  const std::string task = name_of(config.data.task);
  if (!lora.task_type.empty() && task_of(lora.task_type) != task) {
    judge.refuse("lora.task_type", "lora.task_type {} doesn't fit data.task {}", lora.task_type, task);
  }
}

void check_batch(const Config& config, Judge& judge) {
  const TrainingConfig& training = config.training;
  if (training.global_batch_size == 0 || !judge.draft_.is_set("training.gradient_accumulation_steps")) return;
  const int64_t ranks = std::max<int64_t>(1, config.num_processes);
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

void check_evaluation(const Config& config, Judge& judge) {
  const auto& metrics = config.evaluation.metrics;
  if (config.evaluation.generate && !validates(config)) {
    judge.refuse("evaluation.generate",
                 "evaluation.generate needs validation samples: give data.validation.fraction or "
                 "data.validation.path");
  }
  const bool accuracy = std::find(metrics.begin(), metrics.end(), "accuracy") != metrics.end();
  if (accuracy && !config.evaluation.generate && validates(config)) {
    judge.refuse("evaluation.metrics",
                 "evaluation.metrics: accuracy compares generated text with labels and needs "
                 "evaluation.generate: true");
  }
}

/// Trap: the FSDP 1 wizard of Accelerate writes the strategy under this key, and its launcher then ignores it.
void translate_reshard(Draft& draft) {
  auto given = draft.foreign.find("fsdp_config.fsdp_reshard_after_forward");
  if (given == draft.foreign.end() || given->second.is_null()) return;
  const std::string path = "fsdp_config.fsdp_sharding_strategy";
  const Node& node = given->second;
  FsdpConfig& fsdp = draft.config.fsdp_config;
  const std::optional<bool> truth = node.is_scalar() ? parse_bool(node.text) : std::nullopt;
  const bool named = !truth.has_value();
  // 1 is both a truth and Accelerate's code of FULL_SHARD, and means the same.
  ShardingStrategy strategy = truth.value_or(true) ? ShardingStrategy::kFullShard : ShardingStrategy::kShardGradOp;
  if (named && !decode(node, strategy).empty()) {
    draft.problems.add(
        node.mark, path,
        fmt::format("fsdp_config.fsdp_reshard_after_forward must be true, false or a sharding strategy; is {}",
                    described(node)));
    return;
  }
  const bool both = draft.is_set(path) && strategy != fsdp.sharding_strategy;
  if (both && fsdp.version == 1) {
    if (!named && strategy == ShardingStrategy::kFullShard) return;  // Accelerate's default beside a strategy
    draft.warnings.push_back(fmt::format("{}: fsdp_reshard_after_forward has no effect beside fsdp_sharding_strategy",
                                         to_string(node.mark)));
    return;
  }
  if (fsdp.version == 1 && named && strategy != ShardingStrategy::kFullShard) {
    draft.warnings.push_back(
        fmt::format("{}: fsdp_reshard_after_forward names the strategy {}, which is used; Accelerate "
                    "itself would ignore it and use FULL_SHARD",
                    to_string(node.mark), name_of(strategy)));
  }
  fsdp.sharding_strategy = strategy;
  draft.origins[path] = node.mark;
}

void translate_fp16(Draft& draft) {
  auto given = draft.foreign.find("fp16");
  if (given == draft.foreign.end() || draft.is_set("mixed_precision")) return;
  if (!given->second.is_scalar() || parse_bool(given->second.text) != true) return;
  draft.config.mixed_precision = MixedPrecision::kFp16;
  draft.origins["mixed_precision"] = given->second.mark;
}

}  // namespace

void translate_foreign_keys(Draft& draft) {
  translate_reshard(draft);
  translate_fp16(draft);
  Config& config = draft.config;
  if (config.distributed_type == DistributedType::kMultiGpu && config.use_cpu) {
    config.distributed_type = DistributedType::kMultiCpu;
    draft.warnings.push_back(fmt::format("{}: distributed_type MULTI_GPU runs as MULTI_CPU, because use_cpu is true",
                                         to_string(draft.mark("distributed_type"))));
  }
  auto& reports = config.logging.report_to;
  std::erase(reports, "none");
}

void check_rules(Draft& draft, const std::string& source) {
  Judge judge(draft, source);
  const Config& config = draft.config;
  check_machines(config, judge);
  check_ranks(config, judge);
  check_model(config, judge);
  check_data(config, judge);
  if (config.lora) check_lora(*config.lora, config, judge);
  check_batch(config, judge);
  check_evaluation(config, judge);
}

void complete(Config& config) {
  if (config.num_processes == 0) config.num_processes = 1;
  if (config.tokenizer.path.empty()) config.tokenizer.path = config.model.path;
}

}  // namespace trainer::config
