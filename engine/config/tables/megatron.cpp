// Accelerate's keys for Megatron-LM; engine/config/translate/megatron.cpp says what they mean here.
#include "engine/config/tables.h"

namespace trainer::config {

const Entries& megatron_table() {
  using C = MegatronConfig;
  auto pipelined = [](const Config& c) { return c.megatron_lm_config && c.megatron_lm_config->pp_degree > 1; };
  auto tensor_parallel = [](const Config& c) { return c.megatron_lm_config && c.megatron_lm_config->tp_degree > 1; };
  const char* const kernels = "there is one implementation of every layer";
  const char* const model = "the model's own configuration says it";
  const char* const states = "checkpoint says what is saved and loaded";
  const char* const experts = "no model here has experts; 1 is supported";
  const char* const offload = "optimiser state stays where it is";
  static const Entries entries = table<C>(
      option("megatron_lm_tp_degree", &C::tp_degree)
          .help("Ranks that share each layer (tensor parallelism).")
          .ask("What is the Tensor Parallelism degree/size?")
          .env("MEGATRON_LM_TP_DEGREE")
          .at_least(1),
      option("megatron_lm_sequence_parallelism", &C::sequence_parallelism)
          .help("Ranks that share layers share the rows between these too, with their norms and dropouts: less memory "
                "for "
                "activations, and no result changes.")
          .ask("Do you want to enable Sequence Parallelism?")
          .env("MEGATRON_LM_SEQUENCE_PARALLELISM")
          .when("megatron_lm_tp_degree is above 1", tensor_parallel),
      option("megatron_lm_pp_degree", &C::pp_degree)
          .help("Ranks that share the stack of layers (pipeline parallelism).")
          .ask("What is the Pipeline Parallelism degree/size?")
          .env("MEGATRON_LM_PP_DEGREE")
          .at_least(1),
      option("megatron_lm_num_micro_batches", &C::num_micro_batches)
          .help("Parts of a batch that are in the pipeline.")
          .ask("What is the number of micro-batches?")
          .env("MEGATRON_LM_NUM_MICRO_BATCHES")
          .at_least(1)
          .when("megatron_lm_pp_degree is above 1", pipelined),
      option("megatron_lm_recompute_activations", &C::recompute_activations)
          .help("Recomputes activations in the backward pass; the same as training.gradient_checkpointing.")
          .ask("Do you want to enable selective activation recomputation?")
          .env("MEGATRON_LM_RECOMPUTE_ACTIVATIONS"),
      option("megatron_lm_use_distributed_optimizer", &C::use_distributed_optimizer)
          .help("Spreads optimiser state over the ranks.")
          .ask("Do you want to use distributed optimizer which shards optimizer state and gradients across data "
               "parallel ranks?")
          .env("MEGATRON_LM_USE_DISTRIBUTED_OPTIMIZER")
          .harmless({"false"})
          .no_effect("every rank keeps the whole optimiser state, which changes no result; distributed_type: FSDP "
                     "spreads it"),
      option("megatron_lm_gradient_clipping", &C::gradient_clipping)
          .help("The same as training.max_grad_norm.")
          .ask("What is the gradient clipping value based on global L2 Norm (0 to disable)?")
          .env("MEGATRON_LM_GRADIENT_CLIPPING")
          .at_least(0.0),
      unsupported("megatron_lm_expert_model_parallel_size", experts).harmless({"1"}).of<int64_t>(),
      unsupported("megatron_lm_expert_tensor_parallel_size", experts).harmless({"1"}).of<int64_t>(),
      // Accelerate's own default of it is 2.
      translated("megatron_lm_context_parallel_size", "Ranks that share each sequence.").of<int64_t>(),
      translated("megatron_lm_decoder_last_pipeline_num_layers", "Layers of the pipeline's last stage.").of<int64_t>(),
      unsupported("megatron_lm_use_custom_fsdp", "say distributed_type: FSDP instead").of<bool>(),
      no_effect("megatron_lm_learning_rate_decay_iters", "training.max_steps says how long the schedule is").flag(""),
      no_effect("megatron_lm_recompute_granularity", "whole blocks are recomputed").harmless({"full"}),
      no_effect("megatron_lm_recompute_method", "every block is recomputed by itself").harmless({"uniform"}),
      no_effect("megatron_lm_recompute_num_layers", "every block is recomputed by itself").harmless({"1"}),
      no_effect("megatron_lm_attention_backend", kernels).harmless({"true"}),
      no_effect("megatron_lm_attention_softmax_in_fp32", "it always is").harmless({"true"}),
      no_effect("megatron_lm_attention_dropout", model), no_effect("megatron_lm_hidden_dropout", model),
      no_effect("megatron_lm_use_rotary_position_embeddings", model).harmless({"true"}),
      no_effect("megatron_lm_calculate_per_token_loss", "it always is: every target token counts the same")
          .harmless({"true"}),
      no_effect("megatron_lm_eod_mask_loss", "padding never counts"), no_effect("megatron_lm_no_load_optim", states),
      no_effect("megatron_lm_no_save_optim", states), no_effect("megatron_lm_optimizer_cpu_offload", offload),
      no_effect("megatron_lm_overlap_cpu_optimizer_d2h_h2d", offload),
      no_effect("megatron_lm_use_precision_aware_optimizer", "optimiser state is fp32"));
  return entries;
}

const Entries& parallelism_table() {
  using C = ParallelismConfig;
  auto pipelined = [](const Config& c) { return c.parallelism_config && c.parallelism_config->pp_size > 1; };
  auto contexts = [](const Config& c) { return c.parallelism_config && c.parallelism_config->cp_size > 1; };
  auto shared = [](const Config& c) { return c.parallelism_config && c.parallelism_config->tp_size > 1; };
  static const Entries entries = table<C>(
      option("parallelism_config_dp_replicate_size", &C::dp_replicate_size)
          .help("Ranks with a copy of the model each.")
          .ask("What is the data parallelism replicate size?")
          .env("PARALLELISM_CONFIG_DP_REPLICATE_SIZE")
          .at_least(1),
      option("parallelism_config_dp_shard_size", &C::dp_shard_size)
          .help("Ranks that share one copy (FSDP).")
          .ask("What is the FSDP shard size?")
          .env("PARALLELISM_CONFIG_DP_SHARD_SIZE")
          .at_least(1),
      option("parallelism_config_tp_size", &C::tp_size)
          .help("Ranks that share each layer.")
          .ask("What is the tensor parallelism size?")
          .env("PARALLELISM_CONFIG_TP_SIZE")
          .at_least(1),
      option("parallelism_config_tp_sequence_parallel", &C::tp_sequence_parallel)
          .help("These ranks share the rows between layers too, with their norms and dropouts (Megatron's sequence "
                "parallelism): less memory for activations, and no result changes. Accelerate has this key under "
                "megatron_lm_config only.")
          .omitted()
          .when("parallelism_config_tp_size is above 1", shared),
      option("parallelism_config_cp_size", &C::cp_size)
          .help("Ranks that share each sequence.")
          .ask("What is the context parallelism size?")
          .env("PARALLELISM_CONFIG_CP_SIZE")
          .at_least(1),
      option("parallelism_config_sp_size", &C::sp_size)
          .help("Ranks that share each sequence, by DeepSpeed's scheme.")
          .env("PARALLELISM_CONFIG_SP_SIZE")
          .at_least(1),
      option("parallelism_config_pp_size", &C::pp_size)
          .help("Ranks that share the stack of layers; Accelerate has no such key.")
          .omitted()
          .at_least(1),
      option("parallelism_config_pp_chunks", &C::pp_chunks)
          .help("Stretches of the stack that each of them has; more than 1 interleaves them, so that less time is lost "
                "while the pipeline fills. Accelerate has no such key.")
          .omitted()
          .at_least(1)
          .when("parallelism_config_pp_size is above 1", pipelined),
      option("parallelism_config_pp_last_blocks", &C::pp_last_blocks)
          .help("Layers of the last stage, which has the head too; 0: as many as the others. Accelerate has no such "
                "key.")
          .omitted()
          .at_least(0)
          .when("parallelism_config_pp_size is above 1", pipelined),
      option("parallelism_config_cp_comm_strategy", &C::cp_comm_strategy)
          .help("How ranks of one sequence exchange keys and values.")
          .ask("What is the compute parallelism communication strategy?")
          .omitted()
          .env("PARALLELISM_CONFIG_CP_COMM_STRATEGY")
          .one_of({"allgather", "alltoall"})
          .harmless({"allgather"})
          .no_effect("they are always gathered, which changes no result")
          .when("parallelism_config_cp_size is above 1", contexts),
      no_effect("parallelism_config_cp_backend", "there is one implementation").one_of({"torch"}).harmless({"torch"}),
      no_effect("parallelism_config_sp_backend", "there is one implementation")
          .one_of({"deepspeed"})
          .harmless({"deepspeed"}),
      no_effect("parallelism_config_sp_seq_length", "sequences of all lengths are taken"),
      no_effect("parallelism_config_sp_seq_length_is_variable", "sequences of all lengths are taken")
          .harmless({"true"})
          .of<bool>(),
      no_effect("parallelism_config_sp_attn_implementation", "there is one implementation").harmless({"sdpa"}));
  return entries;
}

}  // namespace trainer::config
