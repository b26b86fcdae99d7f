// The keys of a ds_config.json, except those of zero_optimization, optimizer and scheduler.
#include "engine/config/ds_config.h"

namespace trainer::config {
namespace {

/// A section that this engine doesn't use.
ForeignKey whole(ForeignKey key) {
  key.entry.kind = {Type::kGroup, "a group of keys", {}};
  return key;
}

const Entries& fp16_table() {
  using C = DsFp16;
  static const Entries entries = table<C>(
      option("enabled", &C::enabled), option("initial_scale_power", &C::initial_scale_power).at_least(0).at_most(126),
      option("loss_scale_window", &C::loss_scale_window).at_least(1), option("hysteresis", &C::hysteresis).at_least(1),
      option("consecutive_hysteresis", &C::consecutive_hysteresis),
      option("min_loss_scale", &C::min_loss_scale).at_least(0.0),
      no_effect("auto_cast", "each layer casts its input to its compute dtype").harmless({"auto"}),
      option("loss_scale", &C::loss_scale).at_least(0.0),
      unsupported("fp16_master_weights_and_grads", "trained weights are stored in fp32").of<bool>());
  return entries;
}

const Entries& bf16_table() {
  const char* const in_fp32 = "trained weights and the optimizer state are stored in fp32";
  static const Entries entries = table<DsBf16>(
      option("enabled", &DsBf16::enabled),
      no_effect("immediate_grad_update", "gradients are accumulated in place").of<bool>(),
      no_effect("check_grad_overflow", "a non-finite gradient ends the run").harmless({"true"}).of<bool>(),
      unsupported("bf16_master_weights_and_grads", in_fp32).of<bool>(),
      unsupported("bf16_optimizer_states", in_fp32).of<bool>());
  return entries;
}

const Entries& activation_checkpointing_table() {
  const char* const why = "training.gradient_checkpointing recomputes blocks; transformers' models never read this";
  static const Entries entries =
      foreign_table(no_effect("partition_activations", why).of<bool>(), no_effect("number_checkpoints", why),
                    no_effect("contiguous_memory_optimization", why).of<bool>(),
                    translated("cpu_checkpointing", "The same as training.activation_offloading.").of<bool>(),
                    no_effect("synchronize_checkpoint_boundary", why).of<bool>(), no_effect("profile", why).of<bool>());
  return entries;
}

const Entries& checkpoint_table_of_deepspeed() {
  const char* const any = "any number of ranks can load every checkpoint";
  static const Entries entries = foreign_table(
      no_effect("tag_validation", any).harmless({"ignore", "warn", "fail"}),
      no_effect("load_universal", any).of<bool>(),
      no_effect("use_node_local_storage", "docs/checkpoints.md describes runs whose output_dir is not shared")
          .of<bool>(),
      no_effect("parallel_write", "every rank writes its own shards"),
      no_effect("writer", "every rank writes its own shards"));
  return entries;
}

const Entries& data_types_table() {
  const char* const why = "gradients are accumulated in fp32";
  static const Entries entries = foreign_table(no_effect("grad_accum_dtype", why).harmless({"fp32", "auto"}),
                                               no_effect("param_dtype", "model.dtype sets it"),
                                               no_effect("buffer_dtype", "buffers keep their dtype"),
                                               no_effect("keep_in_fp32_modules", "norms compute in fp32"));
  return entries;
}

const Entries& tensor_parallel_table() {
  static const Entries entries =
      foreign_table(translated("autotp_size", "The same as parallelism_config_tp_size.").of<int64_t>(),
                    no_effect("tp_overlap_comm", "partial sums are reduced before they are needed").of<bool>(),
                    no_effect("dtype", "mixed_precision sets it"));
  return entries;
}

const Entries& pipeline_table() {
  const char* const code = "DeepSpeed reads it only for models written as its PipelineModule";
  static const Entries entries = foreign_table(
      unsupported("stages", "set parallelism_config_pp_size in parallelism_config").harmless({"auto", "1"}),
      no_effect("partition", code).harmless({"best"}), no_effect("partition_method", code),
      no_effect("seed_layers", code).of<bool>(), no_effect("activation_checkpoint_interval", code),
      no_effect("activation_checkpointing", code), no_effect("pipe_partitioned", code).of<bool>(),
      no_effect("grad_partitioned", code).of<bool>());
  return entries;
}

}  // namespace

const Entries& ds_config_table() {
  using C = DsConfig;
  const char* const reports = "the section `logging` sets what is reported";
  const char* const no_experts = "mixture-of-experts models are not supported";
  const char* const average = "gradients are averaged over the tokens of an update";
  constexpr int64_t kMost = 1'000'000'000;
  static const Entries entries = table<C>(
      option("train_batch_size", &C::train_batch_size).at_least(1).at_most(kMost),
      option("train_micro_batch_size_per_gpu", &C::train_micro_batch_size_per_gpu).at_least(1).at_most(kMost),
      option("gradient_accumulation_steps", &C::gradient_accumulation_steps).at_least(1).at_most(kMost),
      option("gradient_clipping", &C::gradient_clipping).at_least(0.0),
      option("dataloader_drop_last", &C::dataloader_drop_last), section("fp16", &C::fp16, fp16_table()),
      section("bf16", &C::bf16, bf16_table()).alias("bfloat16"),
      section("zero_optimization", &C::zero_optimization, ds_zero_table()),
      section("optimizer", &C::optimizer, ds_optimizer_table()),
      section("scheduler", &C::scheduler, ds_scheduler_table()),

      group("activation_checkpointing", "", activation_checkpointing_table()),
      group("checkpoint", "", checkpoint_table_of_deepspeed()), group("data_types", "", data_types_table()),

      no_effect("zero_allow_untested_optimizer", "every optimizer works with every stage").harmless({"true"}),
      no_effect("zero_force_ds_cpu_optimizer", "every optimizer works with offloading").harmless({"true"}),
      no_effect("steps_per_print", "logging.logging_steps sets it").harmless({"auto", "inf", "infinity"}),
      no_effect("wall_clock_breakdown", reports).of<bool>(), no_effect("memory_breakdown", reports).of<bool>(),
      no_effect("dump_state", "`trainer explain` prints the configuration").of<bool>(), no_effect("log_level", reports),
      no_effect("timers", reports), no_effect("vocabulary_size", "the model's own is used"),
      no_effect("disable_allgather", "it is for debugging DeepSpeed itself").of<bool>(),
      no_effect("disable_python_gc", "there is no Python").of<bool>(),
      no_effect("managed_gradient_accumulation", "an update always takes gradient_accumulation_steps forward passes")
          .harmless({"true"}),
      no_effect("communication_data_type", "gradients are exchanged in fp32").harmless({"fp32", "auto"}),
      no_effect("seq_parallel_communication_data_type", "context-parallel ranks communicate in the compute dtype")
          .harmless({"fp32"}),
      no_effect("prescale_gradients", average).of<bool>(),
      no_effect("gradient_predivide_factor", average).harmless({"1", "1.0"}),
      unsupported("gradient_allreduce_op", average).harmless({"mean"}),
      unsupported("sparse_gradients", "embedding gradients are dense").of<bool>(),
      no_effect("use_data_before_expert_parallelism", no_experts), no_effect("moe", no_experts),
      no_effect("hybrid_engine", "it only speeds up generation during training"),
      no_effect("aio", "nothing is offloaded to disk"), no_effect("compile", "there is no Python code to compile"),
      no_effect("nebula", "checkpoints go to output_dir"), no_effect("datastates_ckpt", "checkpoints go to output_dir"),
      no_effect("eigenvalue", "nothing uses it"), unsupported("expert_parallel", no_experts),
      group("tensor_parallel", "", tensor_parallel_table()), group("pipeline", "", pipeline_table()),
      unsupported("sequence_parallel_size", "set parallelism_config_cp_size in parallelism_config").harmless({"1"}),
      unsupported("elasticity", "use num_machines: \"1:4\" for 1 to 4 machines, as many as are available"),
      unsupported("autotuning", "`trainer check` reports how much memory a configuration needs"),
      unsupported("data_efficiency", "data.shuffle sets the sample order"),
      unsupported("curriculum_learning", "data.shuffle sets the sample order"),
      unsupported("progressive_layer_drop", "no layer is ever dropped"),
      unsupported("compression_training", "weights are trained as they are"),
      unsupported("quantize_training", "weights are trained as they are"),
      unsupported("weight_quantization", "weights are trained as they are"),
      unsupported("sparse_attention", "attention is dense"),
      whole(unsupported("amp", "it is NVIDIA's apex; use fp16.enabled or bf16.enabled")).harmless({"auto"}),
      whole(unsupported("torch_autocast", "use fp16.enabled or bf16.enabled")),
      whole(no_effect("tensorboard", "logging.report_to enables TensorBoard")), whole(no_effect("wandb", reports)),
      whole(no_effect("csv_monitor", reports)), whole(no_effect("comet", reports)),
      whole(no_effect("comms_logger", reports)), whole(no_effect("flops_profiler", reports)));
  return entries;
}

}  // namespace trainer::config
