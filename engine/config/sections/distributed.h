// `distributed_type` and the sections on how a run is spread over ranks: `fsdp_config`, `deepspeed_config`,
// `megatron_lm_config` and `parallelism_config`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trainer::config {

/// kDeepspeed and kMegatronLm occur only in files: engine/config/translate replaces them in a plan.
enum class DistributedType { kNo, kMultiCpu, kMultiGpu, kFsdp, kDeepspeed, kMegatronLm, kDataParallel };
enum class MixedPrecision { kNo, kBf16, kFp16 };
enum class ShardingStrategy { kFullShard, kShardGradOp, kNoShard, kHybridShard, kHybridShardZero2 };
enum class WrapPolicy { kTransformerBased, kSizeBased, kNoWrap };
enum class BackwardPrefetch { kPre, kPost, kNone };
enum class StateDictType { kFull, kLocal, kSharded };

/// `fsdp_config`: how parameters, gradients and optimizer state are sharded over ranks.
struct FsdpConfig {
  int64_t version = 1;
  ShardingStrategy sharding_strategy = ShardingStrategy::kFullShard;
  WrapPolicy auto_wrap_policy = WrapPolicy::kTransformerBased;
  std::vector<std::string> transformer_layer_cls_to_wrap;  // empty: the model's block class
  int64_t min_num_params = 100'000'000;
  BackwardPrefetch backward_prefetch = BackwardPrefetch::kPre;
  bool forward_prefetch = false;
  StateDictType state_dict_type = StateDictType::kFull;
  bool offload_params = false;
  bool offload_pin_memory = true;
  bool use_orig_params = true;
  bool cpu_ram_efficient_loading = true;
  bool sync_module_states = true;
  bool activation_checkpointing = false;
  std::string reduce_dtype = "float32";  // of the gradient reduction
};

/// A value, or "auto": derived from other options.
template <class T>
struct Auto {
  bool given = false;
  T value{};
};

/// `deepspeed_config`: Accelerate's keys for DeepSpeed, which translate_deepspeed converts to our options.
struct DeepspeedConfig {
  std::string config_file;  // a ds_config.json
  int64_t zero_stage = 2;
  std::string offload_optimizer_device = "none";  // none | cpu | nvme
  std::string offload_param_device = "none";
  std::string offload_optimizer_nvme_path;
  std::string offload_param_nvme_path;
  Auto<int64_t> gradient_accumulation_steps;
  Auto<double> gradient_clipping;
  bool zero3_init_flag = false;
  bool zero3_save_16bit_model = false;
  std::vector<std::string> moe_layer_cls_names;
  std::string multinode_launcher = "pdsh";
  std::string hostfile;
  std::string exclusion_filter;
  std::string inclusion_filter;
};

/// `megatron_lm_config`: Accelerate's keys for Megatron-LM, which translate_megatron converts to our options.
struct MegatronConfig {
  int64_t tp_degree = 1;
  int64_t pp_degree = 1;
  int64_t num_micro_batches = 1;
  bool sequence_parallelism = false;
  bool recompute_activations = false;
  bool use_distributed_optimizer = false;
  double gradient_clipping = 1.0;  // 0: none
};

/// `parallelism_config`: ranks along each axis of the mesh; their product is num_processes.
struct ParallelismConfig {
  int64_t dp_replicate_size = 1;
  int64_t dp_shard_size = 1;
  int64_t tp_size = 1;
  int64_t cp_size = 1;
  int64_t sp_size = 1;
  // Ours: Accelerate has pipelines under megatron_lm_config only.
  int64_t pp_size = 1;
  int64_t pp_chunks = 1;              // model chunks per stage
  int64_t pp_last_blocks = 0;         // of the last stage; 0: as many as in the others
  bool tp_sequence_parallel = false;  // also split the activations between layers
  std::string cp_comm_strategy = "allgather";
};

}  // namespace trainer::config
