// Accelerate's keys for Megatron-LM; engine/config/translate/megatron.cpp translates them.
#include "engine/config/tables.h"

namespace trainer::config {

const Entries& megatron_table() {
  using C = MegatronConfig;
  auto pipelined = [](const Config& c) { return c.megatron_lm_config && c.megatron_lm_config->pp_degree > 1; };
  auto tensor_parallel = [](const Config& c) { return c.megatron_lm_config && c.megatron_lm_config->tp_degree > 1; };
  const char* const kernels = "every layer has one implementation";
  const char* const model = "the model's configuration sets it";
  const char* const states = "the section `checkpoint` sets what is saved and loaded";
  const char* const experts = "mixture-of-experts models are not supported; use 1";
  const char* const offload = "optimizer state stays where it is";
  static const Entries entries = table<C>(
      option("megatron_lm_tp_degree", &C::tp_degree)
          .help("Tensor parallelism: ranks that each layer is split over.")
          .ask("What is the Tensor Parallelism degree/size?")
          .env("MEGATRON_LM_TP_DEGREE")
          .at_least(1),
      option("megatron_lm_sequence_parallelism", &C::sequence_parallelism)
          .help("Tensor-parallel ranks also split the activations between layers, with their norms and dropouts: less "
                "memory for activations, same results.")
          .ask("Do you want to enable Sequence Parallelism?")
          .env("MEGATRON_LM_SEQUENCE_PARALLELISM")
          .when("megatron_lm_tp_degree is above 1", tensor_parallel),
      option("megatron_lm_pp_degree", &C::pp_degree)
          .help("Pipeline parallelism: ranks that the stack of layers is split over.")
          .ask("What is the Pipeline Parallelism degree/size?")
          .env("MEGATRON_LM_PP_DEGREE")
          .at_least(1),
      option("megatron_lm_num_micro_batches", &C::num_micro_batches)
          .help("Micro-batches of an update that go through the pipeline.")
          .ask("What is the number of micro-batches?")
          .env("MEGATRON_LM_NUM_MICRO_BATCHES")
          .at_least(1)
          .when("megatron_lm_pp_degree is above 1", pipelined),
      option("megatron_lm_recompute_activations", &C::recompute_activations)
          .help("Recomputes activations in the backward pass; the same as training.gradient_checkpointing.")
          .ask("Do you want to enable selective activation recomputation?")
          .env("MEGATRON_LM_RECOMPUTE_ACTIVATIONS"),
      option("megatron_lm_use_distributed_optimizer", &C::use_distributed_optimizer)
          .help("Shards the optimizer state over the ranks.")
          .ask("Do you want to use distributed optimizer which shards optimizer state and gradients across data "
               "parallel ranks?")
          .env("MEGATRON_LM_USE_DISTRIBUTED_OPTIMIZER")
          .harmless({"false"})
          .no_effect(
              "every rank keeps the whole optimizer state, with the same results; distributed_type: FSDP shards it"),
      option("megatron_lm_gradient_clipping", &C::gradient_clipping)
          .help("The same as training.max_grad_norm.")
          .ask("What is the gradient clipping value based on global L2 Norm (0 to disable)?")
          .env("MEGATRON_LM_GRADIENT_CLIPPING")
          .at_least(0.0),
      unsupported("megatron_lm_expert_model_parallel_size", experts).harmless({"1"}).of<int64_t>(),
      unsupported("megatron_lm_expert_tensor_parallel_size", experts).harmless({"1"}).of<int64_t>(),
      // Accelerate's default for it is 2.
      translated("megatron_lm_context_parallel_size", "Context parallelism: ranks that each sequence is split over.")
          .of<int64_t>(),
      translated("megatron_lm_decoder_last_pipeline_num_layers", "Layers of the pipeline's last stage.").of<int64_t>(),
      unsupported("megatron_lm_use_custom_fsdp", "use distributed_type: FSDP instead").of<bool>(),
      no_effect("megatron_lm_learning_rate_decay_iters", "training.max_steps sets the length of the schedule").flag(""),
      no_effect("megatron_lm_recompute_granularity", "whole blocks are recomputed").harmless({"full"}),
      no_effect("megatron_lm_recompute_method", "each block is recomputed separately").harmless({"uniform"}),
      no_effect("megatron_lm_recompute_num_layers", "each block is recomputed separately").harmless({"1"}),
      no_effect("megatron_lm_attention_backend", kernels).harmless({"true"}),
      no_effect("megatron_lm_attention_softmax_in_fp32", "it always is").harmless({"true"}),
      no_effect("megatron_lm_attention_dropout", model), no_effect("megatron_lm_hidden_dropout", model),
      no_effect("megatron_lm_use_rotary_position_embeddings", model).harmless({"true"}),
      no_effect("megatron_lm_calculate_per_token_loss", "it always is: every target token has the same weight")
          .harmless({"true"}),
      no_effect("megatron_lm_eod_mask_loss", "padding never contributes to the loss"),
      no_effect("megatron_lm_no_load_optim", states), no_effect("megatron_lm_no_save_optim", states),
      no_effect("megatron_lm_optimizer_cpu_offload", offload),
      no_effect("megatron_lm_overlap_cpu_optimizer_d2h_h2d", offload),
      no_effect("megatron_lm_use_precision_aware_optimizer", "optimizer state is stored in fp32"));
  return entries;
}

const Entries& parallelism_table() {
  using C = ParallelismConfig;
  auto pipelined = [](const Config& c) { return c.parallelism_config && c.parallelism_config->pp_size > 1; };
  auto contexts = [](const Config& c) { return c.parallelism_config && c.parallelism_config->cp_size > 1; };
  auto shared = [](const Config& c) { return c.parallelism_config && c.parallelism_config->tp_size > 1; };
  static const Entries entries = table<C>(
      option("parallelism_config_dp_replicate_size", &C::dp_replicate_size)
          .help("Replicas of the model (data parallelism).")
          .ask("What is the data parallelism replicate size?")
          .env("PARALLELISM_CONFIG_DP_REPLICATE_SIZE")
          .at_least(1),
      option("parallelism_config_dp_shard_size", &C::dp_shard_size)
          .help("Ranks that shard one replica (FSDP).")
          .ask("What is the FSDP shard size?")
          .env("PARALLELISM_CONFIG_DP_SHARD_SIZE")
          .at_least(1),
      option("parallelism_config_tp_size", &C::tp_size)
          .help("Ranks that each layer is split over (tensor parallelism).")
          .ask("What is the tensor parallelism size?")
          .env("PARALLELISM_CONFIG_TP_SIZE")
          .at_least(1),
      option("parallelism_config_tp_sequence_parallel", &C::tp_sequence_parallel)
          .help("Tensor-parallel ranks also split the activations between layers, with their norms and dropouts "
                "(Megatron's sequence parallelism): less memory for activations, same results. Accelerate has this key "
                "under megatron_lm_config only.")
          .omitted()
          .when("parallelism_config_tp_size is above 1", shared),
      option("parallelism_config_cp_size", &C::cp_size)
          .help("Ranks that each sequence is split over (context parallelism).")
          .ask("What is the context parallelism size?")
          .env("PARALLELISM_CONFIG_CP_SIZE")
          .at_least(1),
      option("parallelism_config_sp_size", &C::sp_size)
          .help("Ranks that each sequence is split over, by DeepSpeed's scheme.")
          .env("PARALLELISM_CONFIG_SP_SIZE")
          .at_least(1),
      option("parallelism_config_pp_size", &C::pp_size)
          .help("Ranks that the stack of layers is split over (pipeline parallelism). Accelerate has no such key.")
          .omitted()
          .at_least(1),
      option("parallelism_config_pp_chunks", &C::pp_chunks)
          .help("Model chunks per pipeline rank; more than 1 interleaves them, which shortens the pipeline bubble. "
                "Accelerate has no such key.")
          .omitted()
          .at_least(1)
          .when("parallelism_config_pp_size is above 1", pipelined),
      option("parallelism_config_pp_last_blocks", &C::pp_last_blocks)
          .help("Layers of the last stage, which also has the head; 0: as many as in the others. Accelerate has no "
                "such key.")
          .omitted()
          .at_least(0)
          .when("parallelism_config_pp_size is above 1", pipelined),
      option("parallelism_config_cp_comm_strategy", &C::cp_comm_strategy)
          .help("How context-parallel ranks exchange keys and values.")
          .ask("What is the compute parallelism communication strategy?")
          .omitted()
          .env("PARALLELISM_CONFIG_CP_COMM_STRATEGY")
          .one_of({"allgather", "alltoall"})
          .harmless({"allgather"})
          .no_effect("they are always gathered, with the same results")
          .when("parallelism_config_cp_size is above 1", contexts),
      no_effect("parallelism_config_cp_backend", "there is one implementation").one_of({"torch"}).harmless({"torch"}),
      no_effect("parallelism_config_sp_backend", "there is one implementation")
          .one_of({"deepspeed"})
          .harmless({"deepspeed"}),
      no_effect("parallelism_config_sp_seq_length", "sequences can have any length"),
      no_effect("parallelism_config_sp_seq_length_is_variable", "sequences can have any length")
          .harmless({"true"})
          .of<bool>(),
      no_effect("parallelism_config_sp_attn_implementation", "there is one implementation").harmless({"sdpa"}));
  return entries;
}

}  // namespace trainer::config
