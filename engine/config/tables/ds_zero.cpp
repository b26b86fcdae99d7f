// The keys of zero_optimization in a ds_config.json.
#include "engine/config/ds_config.h"

namespace trainer::config {
namespace {

constexpr char kNoDisk[] = "nothing is offloaded to disk";

const Entries& offload_optimizer_table() {
  const char* const steps = "an update is one step on every rank";
  static const Entries entries = table<DsOffload>(
      option("device", &DsOffload::device).one_of({"none", "cpu", "nvme"}), no_effect("nvme_path", kNoDisk),
      no_effect("buffer_count", kNoDisk).harmless({"4", "auto"}),
      option("pin_memory", &DsOffload::pin_memory),
      no_effect("pipeline_read", kNoDisk).of<bool>(), no_effect("pipeline_write", kNoDisk).of<bool>(),
      no_effect("fast_init", kNoDisk).of<bool>(), no_effect("ratio", "all of it is on `device`").harmless({"1", "1.0"}),
      no_effect("super_offload", steps).of<bool>(), no_effect("cpuadam_cores_perc", steps).harmless({"0.8"}));
  return entries;
}

const Entries& offload_param_table() {
  static const Entries entries = table<DsOffload>(
      option("device", &DsOffload::device).one_of({"none", "cpu", "nvme"}), no_effect("nvme_path", kNoDisk),
      no_effect("buffer_count", kNoDisk).harmless({"5", "auto"}), no_effect("buffer_size", kNoDisk).harmless({"auto"}),
      no_effect("max_in_cpu", kNoDisk).harmless({"auto"}),
      option("pin_memory", &DsOffload::pin_memory));
  return entries;
}

}  // namespace

const Entries& ds_zero_table() {
  using C = DsZero;
  const char* const blocks = "ranks communicate one block of the model at a time";
  const char* const memory = "a unit is gathered before its computation and freed after it";
  const char* const groups =
      "use distributed_type: FSDP with parallelism_config_dp_shard_size, the ranks that shard one replica";
  const char* const quantized = "communication is not quantized";
  const char* const ours = "checkpoints have their own format, which any number of ranks can load";
  static const Entries entries = table<C>(
      option("stage", &C::stage).at_least(0).at_most(3),
      section("offload_optimizer", &C::offload_optimizer, offload_optimizer_table()),
      section("offload_param", &C::offload_param, offload_param_table()), option("cpu_offload", &C::cpu_offload),
      option("cpu_offload_param", &C::cpu_offload_param),
      option("stage3_gather_16bit_weights_on_model_save", &C::gather_16bit_weights_on_model_save)
          .alias("stage3_gather_fp16_weights_on_model_save")
          .alias("gather_16bit_weights_on_model_save")
          .harmless({"auto", "false"})
          .no_effect("the final model is always consolidated, in the dtype of its weights"),
      no_effect("zero_hpz_partition_size", "parameters are gathered from all ranks, with the same results")
          .harmless({"1", "auto"}),

      no_effect("contiguous_gradients", blocks).harmless({"true"}).of<bool>(),
      no_effect("reduce_scatter", blocks).harmless({"true"}).of<bool>(),
      no_effect("reduce_bucket_size", blocks).harmless({"auto"}),
      no_effect("use_multi_rank_bucket_allreduce", blocks).harmless({"true"}).of<bool>(),
      no_effect("allgather_partitions", blocks).harmless({"true"}).of<bool>(),
      no_effect("allgather_bucket_size", blocks).harmless({"auto"}),
      no_effect("overlap_comm", "communication overlaps computation where that helps")
          .harmless({"true", "false", "auto"}),
      no_effect("round_robin_gradients", blocks).of<bool>(),
      no_effect("compute_grad_norm", "training.max_grad_norm needs it").harmless({"true"}).of<bool>(),
      no_effect("parameter_alignment", memory), no_effect("cpu_offload_use_pin_memory", memory).harmless({"true"}),
      no_effect("sub_group_size", memory).harmless({"auto"}),
      no_effect("stage3_prefetch_bucket_size", "fsdp_backward_prefetch controls it")
          .alias("prefetch_bucket_size")
          .harmless({"auto"}),
      no_effect("stage3_param_persistence_threshold", "small parameters belong to units too")
          .alias("param_persistence_threshold")
          .harmless({"auto"}),
      no_effect("stage3_model_persistence_threshold", "small parameters belong to units too")
          .alias("model_persistence_threshold")
          .harmless({"auto"}),
      no_effect("stage3_max_live_parameters", memory).alias("max_live_parameters").harmless({"auto"}),
      no_effect("stage3_max_reuse_distance", memory).alias("max_reuse_distance").harmless({"auto"}),
      no_effect("stage3_module_granularity_threshold", memory).alias("module_granularity_threshold"),
      no_effect("stage3_use_all_reduce_for_fetch_params", blocks).alias("use_all_reduce_for_fetch_params").of<bool>(),
      no_effect("stage3_allgather_sequential", blocks).alias("allgather_sequential").of<bool>(),
      no_effect("leaf_module", "fsdp_transformer_layer_cls_to_wrap sets the units"),
      no_effect("memory_efficient_linear", memory).harmless({"true"}).of<bool>(),
      no_effect("override_module_apply", "weights are initialized or loaded shard by shard")
          .harmless({"true"})
          .of<bool>(),
      no_effect("ignore_unused_parameters", "a parameter without a gradient is left unchanged")
          .harmless({"true"})
          .of<bool>(),
      no_effect("load_from_fp32_weights", ours).harmless({"true"}).of<bool>(),
      no_effect("elastic_checkpoint", ours).of<bool>(), no_effect("pipeline_loading_checkpoint", ours).of<bool>(),
      no_effect("legacy_stage1", "each stage has one implementation").of<bool>(),
      no_effect("log_trace_cache_warnings", "no trace is recorded").of<bool>(),
      no_effect("enable_sanity_checks", "`debug` enables checks").of<bool>(),
      no_effect("save_muon_momentum_buffer_in_memory", "Muon is not supported").of<bool>(),
      unsupported("zero_quantized_weights", quantized).of<bool>(),
      unsupported("zero_quantized_gradients", quantized).of<bool>(),
      unsupported("zero_quantized_nontrainable_weights", quantized).of<bool>(),
      unsupported("mics_shard_size", groups).harmless({"-1"}),
      unsupported("mics_hierarchical_params_gather", groups).of<bool>(),
      unsupported("zenflow", "an update waits for all gradients"));
  return entries;
}

}  // namespace trainer::config
