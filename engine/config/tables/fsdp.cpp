#include "engine/config/machine/device.h"
#include "engine/config/tables.h"

namespace trainer::config {

const Entries& fsdp_table() {
  using C = FsdpConfig;
  auto transformer = [](const Config& c) { return c.fsdp_config.auto_wrap_policy == WrapPolicy::kTransformerBased; };
  auto size_based = [](const Config& c) { return c.fsdp_config.auto_wrap_policy == WrapPolicy::kSizeBased; };
  static const Entries entries = table<C>(
      option("fsdp_version", &C::version)
          .alias("version")
          .env("FSDP_VERSION")
          .help("Accelerate's version of FSDP. Both run the same code; it only decides how fsdp_reshard_after_forward "
                "is read.")
          .ask("What should be your FSDP version?")
          .at_least(1)
          .at_most(2),
      option("fsdp_sharding_strategy", &C::sharding_strategy)
          .alias("sharding_strategy")
          .env("FSDP_SHARDING_STRATEGY")
          .help(
              "FULL_SHARD shards parameters, gradients and optimizer state over the ranks. SHARD_GRAD_OP keeps the "
              "parameters gathered between forward and backward. HYBRID_SHARD and HYBRID_SHARD_ZERO2 do the same "
              "within each machine (or by parallelism_config's dp_shard_size and dp_replicate_size) and reduce "
              "gradients across the replicas. NO_SHARD keeps all of them on every rank, as MULTI_CPU and MULTI_GPU do.")
          .ask("What should be your sharding strategy?"),
      translated("fsdp_reshard_after_forward",
                 "In version 1 the name of the strategy; in version 2 true means FULL_SHARD and false SHARD_GRAD_OP.")
          .alias("reshard_after_forward")
          .env("FSDP_RESHARD_AFTER_FORWARD"),
      option("fsdp_offload_params", &C::offload_params)
          .alias("offload_params")
          .alias("fsdp_cpu_offload")
          .alias("cpu_offload")
          .env("FSDP_OFFLOAD_PARAMS")
          .help(
              "Keeps the shards of parameters, gradients and optimizer state in host memory, and updates them there: a "
              "GPU holds only the units in use. For runs on GPUs.")
          .ask("Do you want to offload parameters and gradients to CPU?")
          .harmless({"false"})
          .no_effect_if([](const Config& c) { return !asks_for_gpus(c); },
                        "this run trains on the CPU, where they are in host memory already"),
      option("fsdp_offload_pin_memory", &C::offload_pin_memory)
          .alias("offload_pin_memory")
          .help(
              "Pins the host memory of offloaded shards, so that copies to and from the GPU overlap with computation. "
              "Pinned memory can't be swapped out.")
          .when("fsdp_offload_params is true", [](const Config& c) { return c.fsdp_config.offload_params; }),
      option("fsdp_auto_wrap_policy", &C::auto_wrap_policy)
          .alias("auto_wrap_policy")
          .env("FSDP_AUTO_WRAP_POLICY")
          .help("Which layers are gathered and freed as one unit.")
          .ask("What should be your auto wrap policy?"),
      comma_list("fsdp_transformer_layer_cls_to_wrap", &C::transformer_layer_cls_to_wrap)
          .alias("transformer_layer_cls_to_wrap")
          .env("FSDP_TRANSFORMER_CLS_TO_WRAP")
          .omitted()
          .help(
              "Class names of the layers that become units (case-sensitive); units may be nested. An entry with a dot "
              "or a star is a pattern of module paths (encoder.block.*). Empty: the model's block class.")
          .ask("Specify the comma-separated list of transformer layer class names (case-sensitive) to wrap ,e.g, "
               ":`BertLayer`, `GPTJBlock`, `T5Block`, `BertLayer,BertEmbeddings,BertSelfOutput` ...?")
          .when("fsdp_auto_wrap_policy is TRANSFORMER_BASED_WRAP", transformer),
      option("fsdp_min_num_params", &C::min_num_params)
          .alias("min_num_params")
          .env("FSDP_MIN_NUM_PARAMS")
          .help(
              "Minimum number of parameters of a unit, counted as by torch's size_based_auto_wrap_policy; 0: no units.")
          .ask("What should be your FSDP's minimum number of parameters for Default Auto Wrapping Policy?")
          .at_least(0)
          .when("fsdp_auto_wrap_policy is SIZE_BASED_WRAP", size_based),
      option("fsdp_backward_prefetch", &C::backward_prefetch)
          .alias("backward_prefetch")
          .env("FSDP_BACKWARD_PREFETCH")
          .alias("fsdp_backward_prefetch_policy")
          .alias("backward_prefetch_policy")
          .help("When the backward pass gathers the next unit: before computing the current unit's gradients, after "
                "them, or not ahead of time.")
          .ask("What should be your FSDP's backward prefetch policy?"),
      option("fsdp_state_dict_type", &C::state_dict_type)
          .alias("state_dict_type")
          .env("FSDP_STATE_DICT_TYPE")
          .help("Layout of checkpoints.")
          .ask("What should be your FSDP's state dict type?")
          .harmless({"FULL_STATE_DICT", "SHARDED_STATE_DICT"})  // checkpoints are sharded, the final model is whole
          .no_effect("checkpoints have one layout: every rank writes its own shards, and any number of ranks can load "
                     "them; the final model is always consolidated"),
      option("fsdp_forward_prefetch", &C::forward_prefetch)
          .alias("forward_prefetch")
          .env("FSDP_FORWARD_PREFETCH")
          .help("On CPUs, gathers the next unit in the forward pass ahead of time. GPUs always do, because gathers run "
                "beside the computation there. (Nothing is gathered where ranks read each other's shards in place.)"),
      option("fsdp_use_orig_params", &C::use_orig_params)
          .alias("use_orig_params")
          .env("FSDP_USE_ORIG_PARAMS")
          .help("Allows trained and frozen parameters in the same unit.")
          .harmless({"true"})
          .no_effect("they are always allowed"),
      option("fsdp_cpu_ram_efficient_loading", &C::cpu_ram_efficient_loading)
          .alias("cpu_ram_efficient_loading")
          .env("FSDP_CPU_RAM_EFFICIENT_LOADING")
          .help("Loads weights once for all ranks.")
          .harmless({"true"})
          .no_effect("each rank reads its own shard of the file"),
      option("fsdp_sync_module_states", &C::sync_module_states)
          .alias("sync_module_states")
          .env("FSDP_SYNC_MODULE_STATES")
          .help("Sends rank 0's weights to the others.")
          .harmless({"true"})
          .no_effect("all ranks load or initialize the same weights"),
      option("fsdp_activation_checkpointing", &C::activation_checkpointing)
          .alias("activation_checkpointing")
          .env("FSDP_ACTIVATION_CHECKPOINTING")
          .help("Recomputes a block in the backward pass instead of keeping its activations; the same as "
                "training.gradient_checkpointing.")
          .ask("Do you want to enable FSDP activation checkpointing?"),
      option("fsdp_reduce_dtype", &C::reduce_dtype)
          .alias("reduce_dtype")
          .help("Dtype of the gradient reduction; gradients are stored in float32. The 16-bit dtypes halve the "
                "traffic. (Accelerate's FSDP uses the dtype of mixed_precision.)")
          .one_of({"float32", "bfloat16", "float16"}),
      translated("fsdp_activation_checkpointing_offload", "The same as training.activation_offloading.")
          .alias("activation_checkpointing_offload")
          .env("FSDP_ACTIVATION_CHECKPOINTING_OFFLOAD")
          .of<bool>(),
      unsupported("fsdp_ignored_modules", "every parameter is sharded")
          .alias("ignored_modules")
          .env("FSDP_IGNORED_MODULES"),
      no_effect("fsdp_mixed_precision", "mixed_precision at the top sets it")
          .alias("fsdp_mixed_precision_policy")
          .flag(""),
      no_effect("limit_all_gathers", "only the unit in use, those around it and the next one are gathered")
          .alias("fsdp_limit_all_gathers")
          .flag("")
          .harmless({"true"})
          .of<bool>(),
      unsupported("xla", "there is no TPU support").flag("").of<bool>(),
      unsupported("xla_fsdp_v2", "there is no TPU support").flag(""),
      unsupported("xla_fsdp_settings", "there is no TPU support").flag(""),
      unsupported("xla_fsdp_grad_ckpt", "there is no TPU support").flag("").of<bool>());
  return entries;
}

}  // namespace trainer::config
