// Accelerate's older spellings and pitfalls.
#include "engine/config/machine/device.h"
#include "engine/config/translate/deepspeed.h"
#include "engine/config/translate/translate.h"
#include "engine/config/translate/translation.h"

namespace trainer::config {
namespace {

const std::string kStrategy = "fsdp_config.fsdp_sharding_strategy";

/// Whether parameters are freed after the forward pass.
bool reshards(ShardingStrategy strategy) {
  return strategy == ShardingStrategy::kFullShard || strategy == ShardingStrategy::kHybridShard;
}

/// Pitfall: Accelerate's FSDP 1 wizard writes the strategy under this key, and its launcher then ignores it.
void translate_reshard(Draft& draft) {
  Translation translation(draft);
  const GivenKey given = translation.foreign("fsdp_config.fsdp_reshard_after_forward");
  if (given.value.is_null()) return;
  const FsdpConfig& fsdp = draft.config.fsdp_config;
  const std::optional<bool> truth = given.value.is_scalar() ? parse_bool(given.value.text) : std::nullopt;
  // 1 is both a boolean and Accelerate's code for FULL_SHARD, with the same meaning.
  ShardingStrategy strategy = truth.value_or(true) ? ShardingStrategy::kFullShard : ShardingStrategy::kShardGradOp;
  if (!truth && !decode(given.value, strategy).empty()) {
    draft.problems.add(
        given.mark, given.key,
        fmt::format("{} must be true, false or a sharding strategy; is {}", given.key, described(given.value)));
    return;
  }
  if (truth && draft.is_set(kStrategy) && reshards(fsdp.sharding_strategy) == *truth) return;  // the same setting
  const bool both = draft.is_set(kStrategy) && strategy != fsdp.sharding_strategy;
  if (both && fsdp.version == 1) {
    const bool default_of_accelerate = truth == true;
    if (!default_of_accelerate)
      translation.no_effect(given, "fsdp_sharding_strategy, which is also set, takes precedence");
    return;
  }
  if (fsdp.version == 1 && !truth && strategy != ShardingStrategy::kFullShard) {
    draft.warnings.push_back(
        fmt::format("{}: fsdp_reshard_after_forward names the strategy {}, which is used; Accelerate itself would "
                    "ignore it and use FULL_SHARD",
                    to_string(given.mark), name_of(strategy)));
  }
  translation.set(given, kStrategy, encode(strategy));
}

/// Everything else in such a file is about SageMaker too, so this is the only problem that is reported.
void refuse_sagemaker(const Draft& draft) {
  if (draft.config.compute_environment == "LOCAL_MACHINE") return;
  Problems problems;
  problems.add(draft.mark("compute_environment"), "compute_environment",
               fmt::format("compute_environment {} is not supported: run `trainer launch` inside the job, with a file "
                           "for LOCAL_MACHINE",
                           draft.config.compute_environment),
               "one-machine");
  problems.throw_if_any();
}

void translate_fp16(Draft& draft) {
  Translation translation(draft);
  const GivenKey given = translation.foreign("fp16");
  if (draft.is_set("mixed_precision") || !given.value.is_scalar()) return;
  if (parse_bool(given.value.text) == true) {
    translation.set(given, "mixed_precision", encode(MixedPrecision::kFp16));
  }
}

/// The equivalent of a strategy on a single machine, whose ranks are all in one shard group.
ShardingStrategy on_one_machine(ShardingStrategy strategy) {
  if (strategy == ShardingStrategy::kHybridShard) return ShardingStrategy::kFullShard;
  if (strategy == ShardingStrategy::kHybridShardZero2) return ShardingStrategy::kShardGradOp;
  return strategy;
}

/// Whether the sizes of the mesh request replicas of the model.
bool has_copies(const Config& config) {
  const auto& mesh = config.parallelism_config;
  return mesh && (mesh->dp_replicate_size > 1 || mesh->dp_shard_size > 1);
}

void refuse_device(const GivenKey& given, Draft& draft) {
  if (const OtherDevices* const other = other_devices(given.value.text))
    draft.problems.add(given.mark, "distributed_type",
                       fmt::format("distributed_type {} is not supported: it is for {}, which this build can't use; "
                                   "--cpu (or use_cpu: true) trains on the CPU instead",
                                   other->name, other->whose),
                       "device-is-there");
}

/// `tp_config`, Accelerate's section for the size before parallelism_config.
void translate_tp_config(Draft& draft) {
  Translation translation(draft);
  const GivenKey size = translation.foreign("tp_config.tp_size");
  if (!size.value.is_null() && size.value.text != "1")
    translation.set(size, "parallelism_config.parallelism_config_tp_size", size.value);
}

}  // namespace

void translate_machines(Draft& draft) {
  Translation translation(draft);
  const GivenKey range = translation.foreign("num_machines");
  if (range.value.is_null() || draft.problems.about("num_machines")) return;
  const std::string least = range.value.text.substr(0, range.value.text.find(':'));
  if (parse_int(least).value_or(0) < 1)
    draft.problems.add(range.mark, range.key,
                       fmt::format("num_machines is {}: a run needs at least one machine", range.value.text));
  else
    translation.set(range, "min_machines", Node::scalar(least));
}

void translate_accelerate(Draft& draft) {
  refuse_sagemaker(draft);
  translate_reshard(draft);
  Translation(draft).set_if_true("fsdp_config.fsdp_activation_checkpointing_offload", "training.activation_offloading");
  translate_fp16(draft);
  translate_tp_config(draft);
}

void default_ranks(Draft& draft) {
  const std::string key = "num_processes";
  Config& config = draft.config;
  const bool by_argument = !draft.is_set("distributed_type") && !deepspeed_argument(draft).value.is_null();
  const bool alone = config.distributed_type == DistributedType::kNo && !by_argument;
  if (alone || config.num_machines > 1 || !asks_for_gpus(config) || draft.is_set(key) || draft.problems.about(key))
    return;
  const auto gpus =
      chooses_gpus(config) ? std::ssize(config.gpu_ids) : std::ssize(visible_gpus(gpus_here(), cuda_visible_devices()));
  if (gpus == 0) return;
  config.num_processes = gpus;
  const char* const why = chooses_gpus(config) ? "one for each of gpu_ids" : "one for each GPU of this machine";
  draft.origins[key] = Mark{std::make_shared<const std::string>(why), 0, 0};
}

void translate_strategy(Draft& draft) {
  Config& config = draft.config;
  if (config.distributed_type != DistributedType::kFsdp || draft.problems.about(kStrategy)) return;
  ShardingStrategy& strategy = config.fsdp_config.sharding_strategy;
  const std::string origin = to_string(draft.mark(kStrategy));
  const std::string given = name_of(strategy);
  if (strategy == ShardingStrategy::kNoShard) {
    config.distributed_type = DistributedType::kMultiGpu;
    draft.translated.push_back(
        translated_note(kStrategy, given, origin, "distributed_type", "MULTI_GPU", "nothing is sharded"));
  } else if (config.num_machines <= 1 && !has_copies(config) && on_one_machine(strategy) != strategy) {
    strategy = on_one_machine(strategy);
    draft.translated.push_back(
        translated_note(kStrategy, given, origin, kStrategy, name_of(strategy),
                        "the ranks of a machine share one replica and there is only one machine"));
  }
}

void translate_use_cpu(Draft& draft) {
  Config& config = draft.config;
  const GivenKey other = Translation(draft).foreign("distributed_type");
  if (!other.value.is_null() && !config.use_cpu) return refuse_device(other, draft);
  const bool gpus = config.distributed_type == DistributedType::kMultiGpu;
  if (!config.use_cpu || (!gpus && other.value.is_null())) return;
  if (gpus) config.distributed_type = DistributedType::kMultiCpu;
  draft.translated.push_back(translated_note("distributed_type", other.value.is_null() ? "MULTI_GPU" : other.value.text,
                                             to_string(draft.mark("distributed_type")), "distributed_type",
                                             name_of(config.distributed_type), "use_cpu is true"));
}

void translate_alone(Draft& draft) {
  const std::string key = "num_processes";
  Config& config = draft.config;
  const Mark mark = draft.mark(key);  // a number set by a flag is never reduced
  const bool alone = config.distributed_type == DistributedType::kNo && draft.is_set("distributed_type");
  if (!alone || layer_of(mark) != Layer::kFile || config.num_processes == 1 || draft.problems.about(key)) return;
  draft.warnings.push_back(
      fmt::format("{}: num_processes is {}, but distributed_type NO runs one process: for more, use MULTI_CPU, "
                  "MULTI_GPU or FSDP",
                  to_string(mark), config.num_processes));
  config.num_processes = 1;
}

void translate_backend(Draft& draft) {
  Config& config = draft.config;
  if (config.use_cpu && config.training.ddp_backend == DdpBackend::kNccl) {
    config.training.ddp_backend = DdpBackend::kGloo;
    draft.translated.push_back(translated_note("training.ddp_backend", "nccl",
                                               to_string(draft.mark("training.ddp_backend")), "training.ddp_backend",
                                               "gloo", "use_cpu is true"));
  }
  const bool several = config.num_processes > 1 && config.distributed_type != DistributedType::kNo;
  if (several && asks_for_gpus(config) && !draft.is_set("training.ddp_backend"))
    config.training.ddp_backend = DdpBackend::kNccl;
}

}  // namespace trainer::config
