// The fields of transformers' TrainingArguments and Seq2SeqTrainingArguments, versions 4 and 5, that are not options of
// `training` here: people paste all of them. Fields that would change the resulting weights are refused; fields that
// would only change how training runs or what it logs have no effect. transformers' defaults are always accepted.
#include "engine/config/tables.h"

namespace trainer::config {
namespace {

/// engine/config/translate/training_arguments.cpp translates them to our options.
Entries moved() {
  return foreign_table(
      translated("output_dir", "The same as output_dir at the top."),
      translated("seed", "The same as seed at the top."),
      translated("data_seed", "The seed of the sample order, which is seed here."),
      translated("use_cpu", "true: use_cpu at the top.").of<bool>(),
      translated("no_cuda", "true: use_cpu at the top.").of<bool>(),
      translated("bf16", "true: mixed_precision: bf16.").of<bool>(),
      translated("fp16", "true: mixed_precision: fp16.").of<bool>(),
      translated("per_gpu_train_batch_size", "An older spelling of per_device_train_batch_size."),
      translated("per_gpu_eval_batch_size", "An older spelling of per_device_eval_batch_size."),
      translated("warmup_ratio", "A fraction of all updates, used if warmup_steps is 0.").of<double>(),
      translated("train_sampling_strategy", "sequential: data.shuffle: false.")
          .one_of({"random", "sequential", "group_by_length", "batch_rebalance"}),
      translated("logging_strategy", "steps: every logging_steps updates.").one_of({"no", "steps", "epoch"}),
      translated("logging_steps", "The same as logging.logging_steps."),
      translated("report_to", "The same as logging.report_to."),
      translated("eval_strategy", "steps: every eval_steps updates; epoch: evaluation.eval_steps: 0.")
          .one_of({"no", "steps", "epoch"}),
      translated("evaluation_strategy", "An older spelling of eval_strategy.").one_of({"no", "steps", "epoch"}),
      translated("eval_steps", "The same as evaluation.eval_steps."),
      translated("predict_with_generate", "true: evaluation.generate.").of<bool>(),
      translated("generation_max_length", "The same as evaluation.max_new_tokens."),
      translated("generation_num_beams", "The same as evaluation.num_beams."),
      translated("save_strategy", "The same as checkpoint.save_strategy.").one_of({"no", "steps", "epoch", "best"}),
      translated("save_steps", "The same as checkpoint.save_steps."),
      translated("save_total_limit", "The same as checkpoint.save_total_limit."),
      translated("resume_from_checkpoint", "The same as checkpoint.resume_from_checkpoint."),
      translated("enable_jit_checkpoint", "true: checkpoint.save_on_signal.").of<bool>(),
      translated("deepspeed", "A ds_config.json, or its keys in place.").path_or_here(),
      translated("fsdp", "\"full_shard auto_wrap offload\", a list of these words, or true: distributed_type: FSDP."),
      translated("fsdp_config", "fsdp_config's keys, with or without the prefix, or a JSON file with them."),
      translated("fsdp_min_num_params", "An older place of the key in fsdp_config."),
      translated("fsdp_transformer_layer_cls_to_wrap", "An older place of the key in fsdp_config."));
}

Entries learning() {
  const char* const padding = "samples are never padded, so sorting by length is not needed";
  const char* const text =
      "evaluation.temperature, evaluation.top_k, evaluation.top_p and evaluation.num_beams control generation";
  const char* const length =
      "use data.max_length, which limits the whole of a causal sample; T5 has data.max_source_length and "
      "data.max_target_length";
  const char* const joined_texts =
      "samples are never padded; data.group_texts joins texts and cuts them to data.max_length";
  const char* const pairs = "it belongs to TRL's DPOConfig: write it in a section dpo";
  return foreign_table(
      unsupported("beta", pairs), unsupported("loss_type", pairs).harmless({"nll", "chunked_nll"}),
      unsupported("precompute_ref_log_probs", pairs).of<bool>().harmless({"true"}),
      unsupported("reference_free", pairs).of<bool>(), unsupported("sync_ref_model", pairs).of<bool>(),
      unsupported("optim_target_modules", "no optimizer can be limited to some modules"),
      unsupported("adafactor", "use optim: adafactor").of<bool>(),
      unsupported("average_tokens_across_devices",
                  "the loss is always averaged over the target tokens of all ranks, so it does not depend on the "
                  "number of ranks; leave it out")
          .harmless({"true"})
          .of<bool>(),
      unsupported("past_index", "no supported model takes its past states as input").harmless({"-1"}),
      no_effect("packing", joined_texts).of<bool>(), unsupported("max_seq_length", length),
      unsupported("max_length", length), group("accelerator_config", "Accelerate's data loading.", accelerator_table()),
      unsupported("split_batches", "per_device_train_batch_size counts the samples of one rank").of<bool>(),
      no_effect("dispatch_batches", "every rank reads its own samples").of<bool>(),
      no_effect("sortish_sampler", padding).of<bool>(), no_effect("length_column_name", padding).harmless({"length"}),
      no_effect("ignore_data_skip", "a resumed run continues with the next sample at no cost").of<bool>(),
      no_effect("remove_unused_columns", "data.source and data.target select the columns")
          .harmless({"true", "false"})
          .of<bool>(),
      no_effect("label_names", "data.target selects the labels"),
      translated("full_determinism", "The same as deterministic at the top.").of<bool>(),
      unsupported("generation_config", text));
}

Entries computing() {
  const char* const python = "there is no Python code to compile";
  const char* const kernels = "every layer has its own kernels";
  const char* const copies = "copies to devices manage their own memory";
  const char* const loader = "all samples are in memory before training starts";
  const char* const tpu = "it is for TPUs";
  const char* const apex = "it is NVIDIA's apex; leave it out and set mixed_precision: fp16";
  return foreign_table(
      no_effect("bf16_full_eval", "evaluation computes in mixed_precision, as training does").of<bool>(),
      no_effect("fp16_full_eval", "evaluation computes in mixed_precision, as training does").of<bool>(),
      unsupported("fp16_opt_level", apex).harmless({"O1"}),
      unsupported("fp16_backend", apex).harmless({"auto", "amp", "cpu_amp"}),
      unsupported("half_precision_backend", apex).harmless({"auto", "amp", "cpu_amp"}),
      no_effect("gradient_checkpointing_kwargs", "there is one way of recomputing, which works for all models"),
      no_effect("torch_compile", python).of<bool>(), no_effect("torch_compile_backend", python),
      no_effect("torch_compile_mode", python), no_effect("torchdynamo", python),
      no_effect("jit_mode_eval", python).of<bool>(), no_effect("use_ipex", "PyTorch is not used").of<bool>(),
      no_effect("use_liger_kernel", kernels).of<bool>(), no_effect("liger_kernel_config", kernels),
      no_effect("use_cache", "training uses no cache").of<bool>(),
      no_effect("torch_empty_cache_steps", "the memory of an update is reused by the next one"),
      unsupported("use_mps_device", "this build can't use Apple's GPUs; leave it out").of<bool>(),
      no_effect("_n_gpu", "num_processes sets the number of ranks").harmless({"-1", "1"}),
      no_effect("local_rank", "the launcher numbers its ranks").harmless({"-1"}),
      unsupported("tpu_num_cores", "this build can't use TPUs; leave it out"),
      no_effect("tpu_metrics_debug", tpu).of<bool>(), unsupported("mp_parameters", "it is SageMaker's"),
      unsupported("sharded_ddp", "use distributed_type: FSDP"),
      unsupported("tp_size", "set parallelism_config_tp_size in parallelism_config").harmless({"1"}),
      unsupported("parallelism_config", "set parallelism_config at the top of the file"),
      no_effect("ddp_find_unused_parameters", "each update finds unused parameters in its graph at almost no cost")
          .of<bool>(),
      no_effect("ddp_broadcast_buffers", "no supported model has buffers that training changes").of<bool>(),
      no_effect("ddp_static_graph", "examining the graph of each update costs almost nothing").of<bool>(),
      no_effect("ddp_gradient_as_bucket_view", "they always are").harmless({"true"}).of<bool>(),
      no_effect("dataloader_num_workers", loader).of<int64_t>(),
      no_effect("dataloader_pin_memory", copies).harmless({"true", "false"}).of<bool>(),
      no_effect("dataloader_persistent_workers", loader).of<bool>(), no_effect("dataloader_prefetch_factor", loader),
      no_effect("dataloader_multiprocessing_context", loader),
      no_effect("dataloader_in_order", "samples always come in order").harmless({"true", "false"}).of<bool>());
}

Entries reporting() {
  const char* const always = "metrics.jsonl always has them";
  const char* const sums = "only the sums of each batch are kept";
  const char* const trackio = "metrics go to metrics.jsonl and TensorBoard only";
  const char* const script = "the sections of this file determine what runs";
  return foreign_table(
      no_effect("do_train", script).harmless({"true", "false"}).of<bool>(),
      no_effect("do_eval", "samples in data.validation are evaluated").harmless({"true", "false"}).of<bool>(),
      no_effect("do_predict", "evaluation.generate writes predictions for the validation samples").of<bool>(),
      translated("eval_on_start", "The same as evaluation.eval_on_start.").of<bool>(),
      no_effect("prediction_loss_only", "evaluation.metrics selects what is measured").of<bool>(),
      no_effect("eval_accumulation_steps", sums), no_effect("include_for_metrics", sums),
      no_effect("include_inputs_for_metrics", sums).of<bool>(), no_effect("batch_eval_metrics", sums).of<bool>(),
      no_effect("eval_use_gather_object", sums).of<bool>(),
      no_effect("eval_do_concat_batches", sums).harmless({"true", "false"}).of<bool>(),
      no_effect("use_legacy_prediction_loop", sums).of<bool>(),
      translated("load_best_model_at_end",
                 "The same as checkpoint.load_best_model_at_end; without metric_for_best_model, by the loss.")
          .of<bool>(),
      translated("eval_delay", "The same as evaluation.eval_delay."),
      translated("early_stopping_patience", "The same as evaluation.early_stopping_patience."),
      translated("early_stopping_threshold", "The same as evaluation.early_stopping_threshold."),
      translated("metric_for_best_model", "The same as checkpoint.metric_for_best_model, also with eval_."),
      no_effect("greater_is_better",
                "the smallest loss or perplexity is the best, and the greatest of the other metrics")
          .harmless({"true", "false"})
          .of<bool>(),
      no_effect("logging_first_step", "logging.logging_steps: 1 logs every update").of<bool>(),
      no_effect("logging_dir", "TensorBoard's files are in output_dir/tensorboard"),
      no_effect("logging_nan_inf_filter", "a non-finite loss ends the run").harmless({"true", "false"}).of<bool>(),
      no_effect("log_level", "the log level is fixed").harmless({"passive"}),
      no_effect("log_level_replica", "the log level is fixed").harmless({"passive", "warning"}),
      no_effect("log_on_each_node", "each rank logs to output_dir/logs on its machine")
          .harmless({"true", "false"})
          .of<bool>(),
      no_effect("disable_tqdm", "the progress line is drawn on a terminal only").of<bool>(),
      no_effect("include_num_input_tokens_seen", always).harmless({"true", "false", "all", "non_padding", "no"}),
      no_effect("include_tokens_per_second", always).harmless({"true", "false"}).of<bool>(),
      no_effect("skip_memory_metrics", always).harmless({"true", "false"}).of<bool>(),
      no_effect("run_name", "output_dir identifies a run"), no_effect("project", trackio).harmless({"huggingface"}),
      no_effect("trackio_space_id", trackio).harmless({"trackio"}), no_effect("trackio_bucket_id", trackio),
      no_effect("trackio_static_space_id", trackio),
      no_effect("ray_scope", "there is no hyperparameter search").harmless({"last"}),
      no_effect("debug", "a non-finite loss ends the run and reports its samples"),
      no_effect("restore_callback_states_from_checkpoint", "there are no callbacks").of<bool>());
}

Entries saving() {
  const char* const hub = "nothing is uploaded; upload output_dir yourself";
  return foreign_table(
      no_effect(
          "overwrite_output_dir",
          "a run resumes from the checkpoints in output_dir; remove them, or set another folder, to start from scratch")
          .of<bool>(),
      no_effect("save_only_model", "a checkpoint always has the full state to resume from").of<bool>(),
      no_effect("save_safetensors", "safetensors is the only format").harmless({"true"}).of<bool>(),
      no_effect("save_on_each_node", "docs/checkpoints.md describes runs whose output_dir is not shared").of<bool>(),
      unsupported("push_to_hub", hub).of<bool>(), no_effect("hub_token", hub), no_effect("hub_model_id", hub),
      no_effect("hub_revision", hub), no_effect("hub_private_repo", hub).of<bool>(),
      no_effect("hub_always_push", hub).of<bool>(), no_effect("hub_strategy", hub).harmless({"every_save"}),
      no_effect("push_to_hub_model_id", hub), no_effect("push_to_hub_organization", hub),
      no_effect("push_to_hub_token", hub));
}

}  // namespace

const Entries& training_arguments_table() {
  static const Entries entries = joined({moved(), learning(), computing(), reporting(), saving(), sft_keys()});
  return entries;
}

}  // namespace trainer::config
