#include "engine/config/tables.h"

namespace trainer::config {

const Entries& fsdp_table() {
  using C = FsdpConfig;
  auto transformer = [](const Config& c) { return c.fsdp_config.auto_wrap_policy == WrapPolicy::kTransformerBased; };
  auto size_based = [](const Config& c) { return c.fsdp_config.auto_wrap_policy == WrapPolicy::kSizeBased; };
  static const Entries entries = table<C>(
      option("fsdp_version", &C::version)
          .alias("version")
          .help("Accelerate's version of FSDP. Both run the same here; it decides how fsdp_reshard_after_forward is "
                "read.")
          .at_least(1)
          .at_most(2),
      option("fsdp_sharding_strategy", &C::sharding_strategy)
          .alias("sharding_strategy")
          .help("What is spread over ranks: parameters, gradients and optimiser state, or only some of them.")
          .ask("What should be your sharding strategy?")
          .supported({ShardingStrategy::kFullShard}),
      translated("fsdp_reshard_after_forward",
                 "Names the strategy in version 1; in version 2 true means FULL_SHARD and false SHARD_GRAD_OP."),
      option("fsdp_offload_params", &C::offload_params)
          .alias("offload_params")
          .help("Keeps shards in the memory of the host.")
          .no_effect("on a CPU they are there already"),
      option("fsdp_auto_wrap_policy", &C::auto_wrap_policy)
          .alias("auto_wrap_policy")
          .help("Which layers are gathered and freed as one unit.")
          .ask("What should be your auto wrap policy?")
          .supported({WrapPolicy::kTransformerBased, WrapPolicy::kNoWrap}),
      comma_list("fsdp_transformer_layer_cls_to_wrap", &C::transformer_layer_cls_to_wrap)
          .alias("transformer_layer_cls_to_wrap")
          .help("Class names of the layers that become units (case-sensitive). Empty: the model's own block.")
          .ask("Specify the comma-separated list of transformer layer class names (case-sensitive) to wrap, e.g. "
               "`T5Block`; empty for the model's own")
          .when("fsdp_auto_wrap_policy is TRANSFORMER_BASED_WRAP", transformer),
      option("fsdp_min_num_params", &C::min_num_params)
          .alias("min_num_params")
          .help("Smallest unit, in parameters.")
          .at_least(0)
          .when("fsdp_auto_wrap_policy is SIZE_BASED_WRAP", size_based),
      option("fsdp_backward_prefetch", &C::backward_prefetch)
          .alias("backward_prefetch")
          .alias("fsdp_backward_prefetch_policy")
          .help("When the next unit is gathered in the backward pass: before this one's gradients, after them, or not "
                "ahead of time."),
      option("fsdp_state_dict_type", &C::state_dict_type)
          .alias("state_dict_type")
          .help("Layout of checkpoints.")
          .no_effect("every rank writes its own tensors, and any number of ranks can load them"),
      option("fsdp_forward_prefetch", &C::forward_prefetch)
          .alias("forward_prefetch")
          .help("Gathers the next unit in the forward pass ahead of time.")
          .no_effect("ranks of one machine read each other's shards in place"),
      option("fsdp_use_orig_params", &C::use_orig_params)
          .alias("use_orig_params")
          .help("Lets parameters of one unit differ in what is trained.")
          .no_effect("they always may"),
      option("fsdp_cpu_ram_efficient_loading", &C::cpu_ram_efficient_loading)
          .alias("cpu_ram_efficient_loading")
          .help("Loads weights once for all ranks.")
          .no_effect("each rank reads its own piece of the file"),
      option("fsdp_sync_module_states", &C::sync_module_states)
          .alias("sync_module_states")
          .help("Sends rank 0's weights to the others.")
          .no_effect("all ranks read or draw the same weights"),
      option("fsdp_activation_checkpointing", &C::activation_checkpointing)
          .alias("activation_checkpointing")
          .help("Recomputes a block in the backward pass instead of keeping its activations; the same as "
                "training.gradient_checkpointing."),
      unsupported("fsdp_activation_checkpointing_offload"), unsupported("fsdp_ignored_modules"));
  return entries;
}

}  // namespace trainer::config
