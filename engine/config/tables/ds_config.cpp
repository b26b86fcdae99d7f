// The keys of a ds_config.json, but for those of zero_optimization, optimizer and scheduler.
#include "engine/config/ds_config.h"

#include "engine/base/edit_distance.h"

namespace trainer::config {
namespace {

/// A section that this program has no use for, with the keys it may have.
ForeignKey whole(ForeignKey key, std::vector<std::string> keys) {
  key.entry.kind = {Type::kGroup, "a group of keys", {}};
  key.entry.read = [keys = std::move(keys)](const Node& node, void*) -> std::string {
    if (!node.is_map()) return fmt::format("must be a group of keys; is {}", described(node));
    for (const Member& member : node.members) {
      if (std::find(keys.begin(), keys.end(), member.key) != keys.end()) continue;
      return fmt::format("has no key '{}'{}", shown(member.key), did_you_mean(member.key, keys));
    }
    return "";
  };
  return key;
}

const Entries& fp16_table() {
  using C = DsFp16;
  static const Entries entries = table<C>(
      option("enabled", &C::enabled), option("initial_scale_power", &C::initial_scale_power).at_least(0).at_most(126),
      option("loss_scale_window", &C::loss_scale_window).at_least(1), option("hysteresis", &C::hysteresis).at_least(1),
      option("consecutive_hysteresis", &C::consecutive_hysteresis),
      option("min_loss_scale", &C::min_loss_scale).above(0.0),
      no_effect("auto_cast", "each layer takes its input in the dtype it computes in").harmless({"auto"}),
      unsupported("loss_scale", "the scale follows overflows; initial_scale_power says where it starts")
          .harmless({"0", "0.0", "auto"}),
      unsupported("fp16_master_weights_and_grads", "trained weights are kept in fp32").of<bool>());
  return entries;
}

const Entries& bf16_table() {
  const char* const in_fp32 = "trained weights and the optimiser's state are kept in fp32";
  static const Entries entries = table<DsBf16>(
      option("enabled", &DsBf16::enabled),
      no_effect("immediate_grad_update", "gradients are summed in place").of<bool>(),
      no_effect("check_grad_overflow", "a gradient that is not finite ends the run").harmless({"true"}).of<bool>(),
      unsupported("bf16_master_weights_and_grads", in_fp32).of<bool>(),
      unsupported("bf16_optimizer_states", in_fp32).of<bool>());
  return entries;
}

const Entries& activation_checkpointing_table() {
  const char* const why = "training.gradient_checkpointing recomputes blocks; transformers' models never read this";
  static const Entries entries = foreign_table(
      no_effect("partition_activations", why).of<bool>(), no_effect("number_checkpoints", why),
      no_effect("contiguous_memory_optimization", why).of<bool>(), no_effect("cpu_checkpointing", why).of<bool>(),
      no_effect("synchronize_checkpoint_boundary", why).of<bool>(), no_effect("profile", why).of<bool>());
  return entries;
}

const Entries& checkpoint_table_of_deepspeed() {
  const char* const any = "any number of ranks can load every checkpoint";
  static const Entries entries = foreign_table(no_effect("tag_validation", any).harmless({"ignore", "warn", "fail"}),
                                               no_effect("load_universal", any).of<bool>(),
                                               no_effect("use_node_local_storage", "there is one machine").of<bool>(),
                                               no_effect("parallel_write", "all ranks write their part"),
                                               no_effect("writer", "all ranks write their part"));
  return entries;
}

const Entries& data_types_table() {
  const char* const why = "gradients are summed in fp32";
  static const Entries entries = foreign_table(no_effect("grad_accum_dtype", why).harmless({"fp32", "auto"}),
                                               no_effect("param_dtype", "model.dtype says it"),
                                               no_effect("buffer_dtype", "buffers keep their dtype"),
                                               no_effect("keep_in_fp32_modules", "norms compute in fp32"));
  return entries;
}

}  // namespace

const Entries& ds_config_table() {
  using C = DsConfig;
  const char* const reports = "`logging` says what is reported";
  const char* const no_experts = "no model here has experts";
  const char* const average = "gradients are divided by the tokens of an update";
  constexpr int64_t kMost = 1'000'000'000;
  static const Entries entries = table<C>(
      option("train_batch_size", &C::train_batch_size).at_least(1).at_most(kMost),
      option("train_micro_batch_size_per_gpu", &C::train_micro_batch_size_per_gpu).at_least(1).at_most(kMost),
      option("gradient_accumulation_steps", &C::gradient_accumulation_steps).at_least(1).at_most(kMost),
      option("gradient_clipping", &C::gradient_clipping).at_least(0.0), section("fp16", &C::fp16, fp16_table()),
      section("bf16", &C::bf16, bf16_table()).alias("bfloat16"),
      section("zero_optimization", &C::zero_optimization, ds_zero_table()),
      section("optimizer", &C::optimizer, ds_optimizer_table()),
      section("scheduler", &C::scheduler, ds_scheduler_table()),

      group("activation_checkpointing", "", activation_checkpointing_table()),
      group("checkpoint", "", checkpoint_table_of_deepspeed()), group("data_types", "", data_types_table()),

      no_effect("zero_allow_untested_optimizer", "every optimiser works with every stage").harmless({"true"}),
      no_effect("zero_force_ds_cpu_optimizer", "every optimiser works with offloading").harmless({"true"}),
      no_effect("steps_per_print", "logging.logging_steps says it").harmless({"auto", "inf", "infinity"}),
      no_effect("wall_clock_breakdown", reports).of<bool>(), no_effect("memory_breakdown", reports).of<bool>(),
      no_effect("dump_state", "`trainer explain` prints the configuration").of<bool>(), no_effect("log_level", reports),
      no_effect("timers", reports), no_effect("vocabulary_size", "the model's own is used"),
      no_effect("dataloader_drop_last", "the last update of an epoch takes what is left").of<bool>(),
      no_effect("disable_allgather", "it is for DeepSpeed's own debugging").of<bool>(),
      no_effect("disable_python_gc", "there is no Python").of<bool>(),
      no_effect("managed_gradient_accumulation", "gradient_accumulation_steps forward passes always make an update")
          .harmless({"true"}),
      no_effect("communication_data_type", "gradients are exchanged in fp32").harmless({"fp32", "auto"}),
      no_effect("seq_parallel_communication_data_type", "there is no sequence parallelism").harmless({"fp32"}),
      no_effect("prescale_gradients", average).of<bool>(),
      no_effect("gradient_predivide_factor", average).harmless({"1", "1.0"}),
      unsupported("gradient_allreduce_op", average).harmless({"mean"}),
      unsupported("sparse_gradients", "gradients of embeddings are dense").of<bool>(),
      no_effect("use_data_before_expert_parallelism", no_experts), no_effect("moe", no_experts),
      no_effect("hybrid_engine", "it speeds up generation while training"),
      no_effect("aio", "nothing is kept on a disk"), no_effect("compile", "there is no Python to compile"),
      no_effect("nebula", "checkpoints go to output_dir"), no_effect("datastates_ckpt", "checkpoints go to output_dir"),
      no_effect("eigenvalue", "nothing uses it"), unsupported("expert_parallel", no_experts),
      unsupported("tensor_parallel", "this version spreads a model by data and FSDP only").harmless({"1"}),
      unsupported("pipeline", "this version spreads a model by data and FSDP only").harmless({"auto"}),
      unsupported("sequence_parallel_size", "this version spreads a model by data and FSDP only").harmless({"1"}),
      unsupported("elasticity", "num_processes says how many ranks there are"),
      unsupported("autotuning", "`trainer check` says how much memory a configuration needs"),
      unsupported("data_efficiency", "samples come in the order of data.shuffle"),
      unsupported("curriculum_learning", "samples come in the order of data.shuffle"),
      unsupported("progressive_layer_drop", "no layer is ever dropped"),
      unsupported("compression_training", "weights are trained as they are"),
      unsupported("quantize_training", "weights are trained as they are"),
      unsupported("weight_quantization", "weights are trained as they are"),
      unsupported("sparse_attention", "attention is dense"),
      whole(unsupported("amp", "it is NVIDIA's apex; say fp16.enabled or bf16.enabled"),
            {"enabled", "opt_level", "cast_model_outputs", "keep_batchnorm_fp32", "loss_scale", "master_weights"})
          .harmless({"auto"}),
      whole(unsupported("torch_autocast", "say fp16.enabled or bf16.enabled"),
            {"enabled", "dtype", "lower_precision_safe_modules"}),
      whole(no_effect("tensorboard", "logging.report_to asks for TensorBoard"), {"enabled", "output_path", "job_name"}),
      whole(no_effect("wandb", reports), {"enabled", "group", "team", "project"}),
      whole(no_effect("csv_monitor", reports), {"enabled", "output_path", "job_name"}),
      whole(no_effect("comet", reports), {"enabled", "samples_log_interval", "project", "workspace", "api_key",
                                          "experiment_name", "experiment_key", "online", "mode"}),
      whole(no_effect("comms_logger", reports), {"enabled", "prof_all", "prof_ops", "verbose", "debug"}),
      whole(no_effect("flops_profiler", reports), {"enabled", "recompute_fwd_factor", "profile_step", "module_depth",
                                                   "top_modules", "detailed", "output_file"}));
  return entries;
}

}  // namespace trainer::config
