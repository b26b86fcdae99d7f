// TrainingArguments pasted under `training`.
#include <algorithm>

#include "engine/base/files.h"
#include "engine/config/tables.h"
#include "tests/config/given.h"
#include "tests/support/source_dir.h"

namespace trainer::config {
namespace {

const std::string kArgumentsFolder = source_dir() + "/tests/config/training_arguments/";
const std::string kFsdpFile = "num_processes: 2\nuse_cpu: true\nmodel: {path: m}\ndata: {train: {path: a}}\n";

using TrainingArguments = Given;

TEST_F(TrainingArguments, DefaultsDrawNoWarnings) {
  for (const char* name : {"version_4.yaml", "version_5.yaml"}) {
    const std::string pasted = read_file(kArgumentsFolder + name);
    EXPECT_EQ(problems(kLeast + pasted), "") << name;
    EXPECT_EQ(warnings(kLeast + pasted), "") << name;
    EXPECT_EQ(resolve(kLeast + pasted).config.logging.logging_steps, 500) << name;
  }
}

TEST_F(TrainingArguments, RefusesUnsupportedFieldsThatAreSet) {
  std::vector<std::string> refused;
  for (const Entry& entry : training_arguments_table()) {
    if (entry.foreign == Foreign::kUnsupported) refused.push_back(entry.name);
  }
  EXPECT_EQ(refused, (std::vector<std::string>{"beta",
                                               "loss_type",
                                               "precompute_ref_log_probs",
                                               "reference_free",
                                               "sync_ref_model",
                                               "optim_target_modules",
                                               "adafactor",
                                               "average_tokens_across_devices",
                                               "past_index",
                                               "max_seq_length",
                                               "max_length",
                                               "split_batches",
                                               "generation_config",
                                               "fp16_opt_level",
                                               "fp16_backend",
                                               "half_precision_backend",
                                               "use_mps_device",
                                               "tpu_num_cores",
                                               "mp_parameters",
                                               "sharded_ddp",
                                               "tp_size",
                                               "parallelism_config",
                                               "push_to_hub",
                                               "assistant_only_loss",
                                               "completion_only_loss",
                                               "dataset_text_field",
                                               "chat_template_path",
                                               "eos_token",
                                               "truncation_mode"}));
  EXPECT_EQ(
      problems(kLeast + "training: {average_tokens_across_devices: false, generation_config: x, "
                        "accelerator_config: {split_batches: true, even_batches: true}}\n"),
      "f.yaml:5:12: training.average_tokens_across_devices: false is not supported: the loss is always averaged over "
      "the target tokens of all ranks, so it does not depend on the number of ranks; leave it out\n"
      "f.yaml:5:50: training.generation_config: x is not supported: evaluation.temperature, evaluation.top_k, "
      "evaluation.top_p and evaluation.num_beams control generation\n"
      "f.yaml:5:93: training.accelerator_config.split_batches: true is not supported: "
      "per_device_train_batch_size counts the samples of one rank; global_batch_size those of all");
}

TEST_F(TrainingArguments, KeysOfTrlNameOurOptions) {
  const std::string job = "distributed_type: 'NO'\nuse_cpu: true\nmodel: {path: m}\n";
  const auto problem = [&](const std::string& more) { return problems(job + more); };
  const std::string data = "data: {task: causal_lm, train: {path: a}", end = "}\n";
  for (const std::string key : {"assistant_only_loss: true", "completion_only_loss: true", "dataset_text_field: body",
                                "eos_token: x", "chat_template_path: t.jinja", "max_seq_length: 9"}) {
    const std::string name = key.substr(0, key.find(':'));
    const std::string in_data = problem(data + ", " + key + end),
                      in_training = problem(data + end + "training: {" + key + end);
    EXPECT_NE(in_data.find("data." + key + " is not supported: "), std::string::npos) << in_data;
    EXPECT_NE(in_training.find("training." + key + " is not supported: "), std::string::npos) << in_training;
    if (name == "eos_token") continue;
    EXPECT_EQ(in_training.find("belongs"), std::string::npos) << in_training;
    const std::size_t reason = in_training.find("supported: ");
    EXPECT_NE(in_training.find("data.", reason), std::string::npos) << in_training << " names no option";
  }
  const Plan packed = resolve(job + data + end + "training: {packing: true, packing_strategy: wrapped}\n");
  ASSERT_EQ(packed.without_effect.size(), 2U);
  for (const Note& note : packed.without_effect)
    EXPECT_NE(note.text.find("data.group_texts joins texts"), std::string::npos) << note.key << ": " << note.text;
}

TEST_F(TrainingArguments, DefaultsOfTrlDrawNoMessages) {
  const std::string job =
      "distributed_type: 'NO'\nuse_cpu: true\nmodel: {path: m}\ndata: {task: causal_lm, train: {path: a}}\n";
  const std::string sft =
      job +
      "training: {loss_type: nll, dataset_text_field: text, packing: false, packing_strategy: bfd, eval_packing: null, "
      "padding_free: false, pad_token: <PAD_TOKEN>, eos_token: <EOS_TOKEN>, pad_to_multiple_of: null, "
      "completion_only_loss: null, assistant_only_loss: false, truncation_mode: keep_start, shuffle_dataset: false, "
      "dataset_kwargs: null, dataset_num_proc: null, model_init_kwargs: null, chat_template_path: null, "
      "trust_remote_code: false, router_aux_loss_coef: null}\n";
  EXPECT_EQ(problems(sft), "");
  EXPECT_EQ(warnings(sft), "");
  const std::string dpo =
      job +
      "dpo: {loss_type: [sigmoid], loss_weights: null, beta: 0.1, label_smoothing: 0.0, f_divergence_type: reverse_kl, "
      "f_alpha_divergence_coef: 0.5, discopop_tau: 0.05, sync_ref_model: false, ref_model_mixup_alpha: 0.6, "
      "ref_model_sync_steps: 512, use_weighting: false, ld_alpha: null, precompute_ref_log_probs: false, "
      "precompute_ref_batch_size: null, padding_free: false, truncation_mode: keep_start, pad_token: null}\n";
  EXPECT_EQ(problems(dpo), "");
  EXPECT_EQ(warnings(dpo), "");
}

TEST_F(TrainingArguments, ListsOfLossesOfPairs) {
  const std::string job =
      "distributed_type: 'NO'\nuse_cpu: true\nmodel: {path: m}\ndata: {task: causal_lm, train: {path: a}}\ndpo: ";
  const auto read = [&](const std::string& keys) { return *resolve(job + "{" + keys + "}\n").config.dpo; };
  EXPECT_EQ(read("loss_type: [ipo]").loss_type, PreferenceLoss::kIpo);
  EXPECT_EQ(read("loss_type: [hinge], loss_weights: [1.0]").loss_type, PreferenceLoss::kHinge);
  EXPECT_EQ(read("loss_type: [sigmoid, sft], loss_weights: [1, 0.3]").rpo_alpha, 0.3);
  EXPECT_EQ(read("loss_type: [sft, sigmoid_norm]").rpo_alpha, 1.0);
  EXPECT_EQ(read("loss_type: [sft, sigmoid_norm]").loss_type, PreferenceLoss::kSigmoidNorm);
  EXPECT_EQ(
      problems(job + "{loss_type: [sigmoid, hinge]}\n"),
      "f.yaml:5:18: dpo.loss_type: [sigmoid, hinge] is not supported: write one loss with the weight 1, alone or with "
      "sft: loss_type [sigmoid, sft], loss_weights [1, …]");
  EXPECT_EQ(problems(job + "{loss_type: [apo_zero]}\n"),
            "f.yaml:5:19: dpo.loss_type apo_zero is not supported by this version");
  EXPECT_NE(problems(job + "{loss_type: [sigmoid, sft], loss_weights: [0.5, 1]}\n").find("with the weight 1"),
            std::string::npos);
  EXPECT_NE(problems(job + "{loss_type: [sigmoid, sft], rpo_alpha: 1}\n").find("give one of them"), std::string::npos);
  EXPECT_NE(problems(job + "{loss_weights: [1]}\n").find("with its list of losses"), std::string::npos);
}

TEST_F(TrainingArguments, MovesFieldsToOurSections) {
  const Plan plan = resolve(
      kLeast +
      "training: {save_steps: 7, save_total_limit: 2, logging_steps: 3, report_to: all, seed: 5, output_dir: out, "
      "generation_max_length: 9, generation_num_beams: 3, resume_from_checkpoint: last, bf16: true, warmup_steps: 0, "
      "warmup_ratio: 0.1, "
      "train_sampling_strategy: sequential, no_cuda: true, per_gpu_train_batch_size: 4}\n");
  const Config& c = plan.config;
  EXPECT_EQ(c.checkpoint.save_steps, 7);
  EXPECT_EQ(c.checkpoint.save_total_limit, 2);
  EXPECT_EQ(c.checkpoint.resume_from_checkpoint, (folder_ / "last").string());
  EXPECT_EQ(c.logging.logging_steps, 3);
  EXPECT_EQ(c.logging.report_to, std::vector<std::string>{"tensorboard"});
  EXPECT_EQ(c.seed, 5);
  EXPECT_EQ(c.output_dir, (folder_ / "out").string());
  EXPECT_EQ(c.evaluation.max_new_tokens, 9);
  EXPECT_EQ(c.evaluation.num_beams, 3);
  EXPECT_EQ(c.mixed_precision, MixedPrecision::kBf16);
  EXPECT_EQ(c.training.warmup_steps, 0.1);
  EXPECT_EQ(c.training.per_device_train_batch_size, 4);
  EXPECT_FALSE(c.data.shuffle);
  EXPECT_EQ(plan.origins.at("checkpoint.save_steps"), (folder_ / "f.yaml").string() + ":5:24");
}

TEST_F(TrainingArguments, RefusesDifferentValuesForOneOption) {
  EXPECT_EQ(problems(kLeast + "training: {save_steps: 7}\ncheckpoint: {save_steps: 8}\n"),
            "f.yaml:5:24: training.save_steps is 7, but checkpoint.save_steps is 8 (f.yaml:6:26): give one of them, or "
            "both the same value");
  EXPECT_EQ(
      problems(kLeast + "mixed_precision: 'no'\ntraining: {bf16: true}\n"),
      "f.yaml:6:18: training.bf16 is true, but mixed_precision is no (f.yaml:5:18): give one of them, or both the "
      "same value");
  EXPECT_EQ(problems(kLeast + "mixed_precision: bf16\ntraining: {bf16: false}\n"), "");
  EXPECT_EQ(resolve(kLeast + "training: {save_steps: 7}\n", {{"checkpoint.save_steps", "8", "--set"}})
                .config.checkpoint.save_steps,
            8);
  EXPECT_EQ(resolve(kLeast + "checkpoint: {save_steps: 8}\n", {{"training.save_steps", "7", "--set"}})
                .config.checkpoint.save_steps,
            7);
  EXPECT_EQ(resolve(kLeast + "training: {warmup_steps: 3, warmup_ratio: 0.1}\n").config.training.warmup_steps, 3);
  EXPECT_EQ(problems(kLeast + "training: {warmup_ratio: 1.5}\n"),
            "f.yaml:5:26: training.warmup_ratio: 1.5 is not supported: it is a fraction of all updates, below 1; "
            "warmup_steps is a number of updates");
}

TEST_F(TrainingArguments, TranslatesSamplingStrategies) {
  const auto plan = [&](const char* strategy) {
    return resolve(kLeast + "training: {train_sampling_strategy: " + strategy + "}\n");
  };
  EXPECT_TRUE(plan("group_by_length").config.training.group_by_length);
  EXPECT_FALSE(plan("sequential").config.data.shuffle);
  const Plan even = plan("batch_rebalance");
  EXPECT_FALSE(even.config.training.group_by_length) << "it changes the order of the samples";
  EXPECT_TRUE(even.config.data.shuffle);
  ASSERT_EQ(even.without_effect.size(), 1u);
  EXPECT_EQ(even.without_effect[0].text, "each update's samples are always divided evenly, by their tokens");
}

TEST_F(TrainingArguments, TranslatesSaveAndEvalStrategies) {
  const std::string validated =
      "distributed_type: NO\nuse_cpu: true\nmodel: {path: m}\n"
      "data: {train: {path: a}, validation: {fraction: 0.1}}\n";
  auto config = [&](const std::string& training) {
    return resolve(validated + "training: {" + training + "}\n").config;
  };
  EXPECT_EQ(config("eval_strategy: steps, eval_steps: 5").evaluation.eval_steps, 5);
  EXPECT_EQ(config("evaluation_strategy: steps, logging_steps: 6").evaluation.eval_steps, 6);
  EXPECT_EQ(config("eval_strategy: epoch, evaluation_strategy: null, eval_steps: 5").evaluation.eval_steps, 0);
  EXPECT_EQ(config("save_strategy: no, save_steps: 5").checkpoint.save_strategy, SaveStrategy::kNo);
  EXPECT_EQ(config("save_strategy: epoch").checkpoint.save_strategy, SaveStrategy::kEpoch);
  EXPECT_EQ(config("save_strategy: best, metric_for_best_model: eval_loss").checkpoint.save_strategy,
            SaveStrategy::kBest);
  EXPECT_EQ(config("save_strategy: steps, save_steps: 5").checkpoint.save_steps, 5);
  EXPECT_EQ(config("eval_strategy: epoch, eval_delay: 2").evaluation.eval_delay, 2);
  EXPECT_EQ(warnings(validated + "training: {eval_strategy: no, save_strategy: no, save_steps: 5}\n"),
            "f.yaml: these keys have no effect here: eval_strategy, save_steps (see `trainer check`)\n");
  EXPECT_EQ(
      problems(kLeast + "training: {save_strategy: epoch, logging_steps: 0.1, eval_strategy: step}\n"),
      "f.yaml:5:49: training.logging_steps: 0.1 is not supported: fractions of all updates are not supported; set a "
      "number of updates\n"
      "f.yaml:5:69: training.eval_strategy must be one of no, steps, epoch; is 'step' (did you mean 'steps'?)");
}

TEST_F(TrainingArguments, RefusalsNameAlternatives) {
  const auto refusal = [&](const std::string& training) { return problems(kLeast + "training: {" + training + "}\n"); };
  EXPECT_NE(refusal("save_strategy: best, metric_for_best_model: loss")
                .find("checkpoint.save_strategy is best, but there are no validation samples to measure it on: set "
                      "data.validation"),
            std::string::npos);
  EXPECT_NE(refusal("save_strategy: epok").find("must be one of no, steps, epoch, best; is 'epok'"), std::string::npos);
}

TEST_F(TrainingArguments, LoadsTheBestModelByTheLossUnlessAMetricIsGiven) {
  const std::string validated =
      "distributed_type: NO\nuse_cpu: true\nmodel: {path: m}\n"
      "data: {train: {path: a}, validation: {fraction: 0.1}}\n";
  const Config by_default = resolve(validated +
                                    "training: {load_best_model_at_end: true, early_stopping_patience: 3, "
                                    "early_stopping_threshold: 0.1, eval_on_start: true}\n")
                                .config;
  EXPECT_TRUE(by_default.checkpoint.load_best_model_at_end);
  EXPECT_EQ(by_default.checkpoint.metric_for_best_model, "loss");
  EXPECT_EQ(by_default.evaluation.early_stopping_patience, 3);
  EXPECT_EQ(by_default.evaluation.early_stopping_threshold, 0.1);
  EXPECT_TRUE(by_default.evaluation.eval_on_start);
  EXPECT_EQ(resolve(validated + "training: {load_best_model_at_end: true, metric_for_best_model: eval_accuracy}\n"
                                "evaluation: {metrics: [loss, accuracy], generate: true}\n")
                .config.checkpoint.metric_for_best_model,
            "accuracy");
  EXPECT_EQ(resolve(validated + "training: {load_best_model_at_end: false}\n").config.checkpoint.metric_for_best_model,
            "none");
}

TEST_F(TrainingArguments, HidesSecrets) {
  const Plan plan = resolve(kLeast + "training: {hub_token: hf_abc}\n");
  ASSERT_EQ(plan.without_effect.size(), 1u);
  EXPECT_EQ(plan.without_effect[0].value, "(hidden)");
}

TEST_F(TrainingArguments, ReadsFsdpWords) {
  for (const char* words : {"full_shard auto_wrap offload", "[full_shard, auto_wrap, offload]", "FULL_SHARD offload"}) {
    const Config c = resolve(kFsdpFile + "training: {fsdp: " + words + "}\n").config;
    EXPECT_EQ(c.distributed_type, DistributedType::kFsdp) << words;
    EXPECT_EQ(c.fsdp_config.sharding_strategy, ShardingStrategy::kFullShard) << words;
    EXPECT_TRUE(c.fsdp_config.offload_params) << words;
  }
  EXPECT_EQ(resolve(kFsdpFile + "training: {fsdp: true}\n").config.distributed_type, DistributedType::kFsdp);
  for (const char* nothing : {"''", "false", "null", "[]"}) {
    EXPECT_EQ(resolve(kLeast + "training: {fsdp: " + nothing + "}\n").config.distributed_type, DistributedType::kNo);
  }
  EXPECT_EQ(problems(kFsdpFile + "training: {fsdp: hybrid_shard full_sharp}\n"),
            "f.yaml:5:18: training.fsdp must consist of full_shard, shard_grad_op, no_shard, hybrid_shard, "
            "hybrid_shard_zero2, offload, auto_wrap; is 'full_sharp' (did you mean 'full_shard'?)");
}

TEST_F(TrainingArguments, FsdpMustAgreeWithDistributedType) {
  EXPECT_EQ(problems(kFsdpFile + "distributed_type: MULTI_CPU\ntraining: {fsdp: full_shard}\n"),
            "f.yaml:6:18: training.fsdp is full_shard, but distributed_type is MULTI_CPU (f.yaml:5:19): give one of "
            "them, or both the same value");
  EXPECT_EQ(problems("num_processes: 2\nmodel: {path: m}\ndata: {train: {path: a}}\ntraining: {fsdp: full_shard}\n"),
            "f.yaml:4:18: training.fsdp full_shard with use_cpu false trains on GPUs, and this build has no GPU "
            "support: --cpu (or use_cpu: true) trains on the CPU instead");
}

TEST_F(TrainingArguments, ReadsInlineFsdpConfig) {
  const std::string keys =
      "{transformer_layer_cls_to_wrap: [T5Block, T5LayerFF], fsdp_backward_prefetch: backward_post, "
      "min_num_params: 0, xla: false, xla_fsdp_grad_ckpt: false, version: 2, "
      "reshard_after_forward: true, activation_checkpointing: true, cpu_offload: true}";
  const FsdpConfig c = resolve(kFsdpFile + "training: {fsdp: true, fsdp_config: " + keys + "}\n").config.fsdp_config;
  EXPECT_EQ(c.transformer_layer_cls_to_wrap, (std::vector<std::string>{"T5Block", "T5LayerFF"}));
  EXPECT_EQ(c.backward_prefetch, BackwardPrefetch::kPost);
  EXPECT_EQ(c.min_num_params, FsdpConfig().min_num_params);
  EXPECT_TRUE(c.activation_checkpointing);
  EXPECT_TRUE(c.offload_params);
  EXPECT_TRUE(resolve(kFsdpFile + "training: {fsdp: {activation_checkpointing: true}}\n")
                  .config.fsdp_config.activation_checkpointing);
  EXPECT_EQ(problems(kFsdpFile + "training: {fsdp: true, fsdp_config: {reshard_after_forward: false, xla: true, "
                                 "backward_prefech: backward_pre, use_orig_params: 7}}\n"),
            "f.yaml:5:73: fsdp_config.xla: true is not supported: there is no TPU support\n"
            "f.yaml:5:79: training.fsdp_config.backward_prefech is not an option (did you mean 'backward_prefetch'?)");
  EXPECT_EQ(warnings(kLeast + "training: {fsdp_config: {min_num_params: 5}}\n"),
            "f.yaml: these keys have no effect here: fsdp_config (see `trainer check`)\n");
}

TEST_F(TrainingArguments, ReadsFsdpConfigFromFile) {
  write("fsdp.json", R"({"transformer_layer_cls_to_wrap": ["T5Block"], "activation_checkpoint": true})");
  const std::string file = kFsdpFile + "training: {fsdp: full_shard, fsdp_config: fsdp.json}\n";
  EXPECT_EQ(problems(file),
            "fsdp.json:1:48: training.fsdp_config.activation_checkpoint is not an option (did you mean "
            "'activation_checkpointing'?)");
  write("fsdp.json", R"({"transformer_layer_cls_to_wrap": ["T5Block"]})");
  EXPECT_EQ(resolve(file).config.fsdp_config.transformer_layer_cls_to_wrap, std::vector<std::string>{"T5Block"});
}

}  // namespace
}  // namespace trainer::config
