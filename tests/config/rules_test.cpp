// Rules between options.
#include "engine/config/machine/device.h"
#include "engine/config/trackers.h"
#include "tests/config/given.h"

namespace trainer::config {
namespace {

using Rules = Given;

const std::string kMultiCpu =
    "distributed_type: MULTI_CPU\nnum_processes: 2\nmodel: {path: m}\ndata: {train: {path: a}, validation: {fraction: "
    "0.1}}\n";

TEST_F(Rules, CheckNumberOfRanks) {
  EXPECT_EQ(problems(kLeast, {{"num_processes", "2", "--num_processes"}}),
            "--num_processes: num_processes is 2, but distributed_type NO runs one process: use MULTI_CPU or FSDP");
  EXPECT_EQ(problems(kLeast + "num_processes: 1\n"), "");
  EXPECT_EQ(problems(kMultiCpu + "compute_environment: AMAZON_SAGEMAKER\n"),
            "f.yaml:5:22: compute_environment AMAZON_SAGEMAKER is not supported: run `trainer launch` inside the "
            "job, with a file for LOCAL_MACHINE");
  EXPECT_EQ(problems(kMultiCpu, {{"num_processes", "0", "--num_processes"}}),
            "--num_processes: num_processes must be at least 1; is 0");
}

TEST_F(Rules, CheckMachines) {
  const std::string two = kMultiCpu + "num_machines: 2\n";
  EXPECT_EQ(problems(two), "f.yaml: main_process_ip is required when num_machines is 2: the address of machine 0");
  EXPECT_EQ(problems(two + "main_process_ip: 10.0.0.1\n"), "");
  EXPECT_EQ(
      problems(two + "main_process_ip: 10.0.0.1\nmain_process_port: 0\n"),
      "f.yaml:7:20: main_process_port is 0, and num_machines is 2: machines rendezvous at a port that all of them "
      "know; set one, or leave it out for 29500");
  EXPECT_EQ(problems(kMultiCpu + "main_process_port: 0\n"), "") << "one machine needs none";
  EXPECT_EQ(problems(two + "main_process_ip: 10.0.0.1\nmachine_rank: 2\n"),
            "f.yaml:7:15: machine_rank is 2, but num_machines is 2: machines are numbered from 0");
  EXPECT_EQ(problems(kMultiCpu + "num_machines: 4\nmain_process_ip: a\n"),
            "f.yaml:2:16: num_processes is 2 on 4 machines: it counts the ranks of all machines, and every machine "
            "must run the same number (--nproc_per_node counts those of one machine)");
  EXPECT_EQ(problems(kLeast + "num_machines: 2\n"),
            "f.yaml:5:15: num_machines is 2, but distributed_type NO runs one process: use MULTI_CPU or FSDP");
}

TEST_F(Rules, KeepTheOutputOutOfFoldersThatAreRead) {
  const std::string job =
      "distributed_type: NO\nuse_cpu: true\nmodel: {path: m}\ndata: {train: {path: a}, validation: {path: v}}\nlora: "
      "{path: l}\noutput_dir: ";
  for (const auto& [folder, option] : std::map<std::string, std::string>{
           {"m", "model.path"}, {"a", "data.train.path"}, {"v", "data.validation.path"}, {"l", "lora.path"}})
    EXPECT_NE(problems(job + folder + "\n").find("the folder that " + option + " reads: use another folder"),
              std::string::npos)
        << problems(job + folder + "\n");
  EXPECT_EQ(problems(kLeast + "output_dir: m/out\n"), "");
}

TEST_F(Rules, CheckRangeOfMachines) {
  const std::string four =
      "distributed_type: FSDP\nuse_cpu: true\nnum_processes: 8\nmain_process_ip: a\n"
      "model: {path: m}\ndata: {train: {path: a}}\n";
  for (const char* range : {"1:4", "'1:4'", "\"1:4\""}) {
    const Plan plan = resolve(four + "num_machines: " + range + "\n");
    EXPECT_EQ(plan.config.num_machines, 4);
    EXPECT_EQ(plan.config.min_machines, 1);
    EXPECT_EQ(plan.config.max_restarts, 3) << "the default for elastic runs";
    EXPECT_NE(plan.origins.at("min_machines").find("f.yaml:7:15"), std::string::npos);
  }
  EXPECT_EQ(resolve(four + "num_machines: 1:4\nmax_restarts: 0\n").config.max_restarts, 0);
  EXPECT_EQ(resolve(four + "num_machines: 4\n").config.max_restarts, 0);
  EXPECT_EQ(resolve(four + "num_machines: 4\nmin_machines: 2\n").config.max_restarts, 3);
  EXPECT_EQ(problems(four + "num_machines: 1:4\nmin_machines: 1\n"), "");
  EXPECT_EQ(problems(four + "num_machines: 1:4\nmin_machines: 2\n"),
            "f.yaml:7:15: num_machines is 1:4, but min_machines is 2 (f.yaml:8:15): give one of them, or both the same "
            "value");
  EXPECT_EQ(problems(four + "num_machines: 4:1\n"), "f.yaml:7:15: num_machines is 4:1: the smaller number comes first");
  EXPECT_EQ(problems(four + "num_machines: 4\nmin_machines: 5\n"),
            "f.yaml:8:15: min_machines is 5, but num_machines is 4: min_machines must not be larger");
  EXPECT_EQ(problems(four + "num_machines: 0:4\n"),
            "f.yaml:7:15: num_machines is 0:4: a run needs at least one machine");
  EXPECT_EQ(problems(four + "num_machines: 1:many\n"), "f.yaml:7:15: num_machines must be an integer; is '1:many'");
  EXPECT_EQ(problems(four + "num_machines: 1:3\n"),
            "f.yaml:3:16: num_processes is 8 on 3 machines: it counts the ranks of all machines, and every machine "
            "must run the same number (--nproc_per_node counts those of one machine)");
}

TEST_F(Rules, LaterNumberOfMachinesWins) {
  const std::string four =
      "distributed_type: FSDP\nuse_cpu: true\nnum_processes: 8\nmain_process_ip: a\n"
      "model: {path: m}\ndata: {train: {path: a}}\nnum_machines: 1:4\n";
  const Plan other = resolve(four, {{"num_machines", "2:8", "--nnodes"}});
  EXPECT_EQ(other.config.num_machines, 8);
  EXPECT_EQ(other.config.min_machines, 2);
  EXPECT_EQ(resolve(four, {{"num_machines", "2", "--nnodes"}}).config.min_machines, 0) << "a number is not a range";
  EXPECT_EQ(resolve(four, {{"min_machines", "3", "--min_machines"}}).config.min_machines, 3);
}

TEST_F(Rules, RanksPerMachineMultiplyWithMachines) {
  const auto ranks = [&](const std::string& text, std::vector<Override> flags) {
    flags.push_back({"main_process_ip", "a", "--master_addr"});
    const Override per_machine{"num_processes", "3", "--nproc_per_node"};
    return resolve_plan({write("f.yaml", text), "", flags, per_machine}).config.num_processes;
  };
  EXPECT_EQ(ranks(kMultiCpu, {}), 3);
  EXPECT_EQ(ranks(kMultiCpu, {{"num_machines", "2", "--nnodes"}}), 6);
  EXPECT_EQ(ranks(kMultiCpu + "num_machines: 2\n", {}), 6) << "the file's machines";
  EXPECT_EQ(ranks(kMultiCpu + "num_machines: 2\n", {{"num_processes", "6", "--num_processes"}}), 6);
  EXPECT_THROW(ranks(kMultiCpu, {{"num_processes", "2", "--num_processes"}}), ConfigError);
}

TEST_F(Rules, GpuConfigurationNeverRunsOnCpuUnlessRequested) {
  const std::string rest = "use_cpu: false\nmodel: {path: m}\ndata: {train: {path: a}}\n";
  EXPECT_EQ(problems("distributed_type: FSDP\nnum_processes: 2\n" + rest),
            "f.yaml:1:19: distributed_type FSDP with use_cpu false trains on GPUs, and this build has no GPU support: "
            "--cpu (or use_cpu: true) trains on the CPU instead");
  EXPECT_EQ(problems("distributed_type: FSDP\nnum_processes: 2\n" + rest, {{"use_cpu", "true", "--cpu"}}), "");
  EXPECT_EQ(problems("distributed_type: NO\n" + rest), "");
  EXPECT_EQ(problems(kMultiCpu), "");
}

TEST_F(Rules, CheckWithoutRunNeedsNoGpusAndNoSamples) {
  const std::string text = "distributed_type: FSDP\nnum_processes: 2\nuse_cpu: false\nmodel: {path: m}\n";
  const std::string file = write("f.yaml", text);
  const Plan plan = resolve_plan({.file = file, .job_file = "", .overrides = {}, .to_run = false});
  EXPECT_TRUE(trains_on_gpus(plan.config));
  EXPECT_FALSE(trains_on_gpus(resolve(kMultiCpu).config));
  EXPECT_NE(problems(text).find("data.train.path is required"), std::string::npos);
  EXPECT_NE(problems(text).find("trains on GPUs"), std::string::npos);
  const std::string wrong = write("g.yaml", text + "data: {train: {format: mnist}}\n");
  EXPECT_THROW(resolve_plan({.file = wrong, .job_file = "", .overrides = {}, .to_run = false}), ConfigError);
}

TEST_F(Rules, NcclNeedsGpus) {
  const std::string rest =
      "num_processes: 2\nmodel: {path: m}\ndata: {train: {path: a}}\ntraining: {ddp_backend: nccl}\n";
  EXPECT_EQ(problems("distributed_type: MULTI_CPU\n" + rest),
            "f.yaml:5:25: training.ddp_backend is nccl, which works only on NVIDIA GPUs, but distributed_type "
            "MULTI_CPU trains on the CPU: use gloo or mpi");
  const Plan rehearsed = resolve("distributed_type: MULTI_GPU\n" + rest, {{"use_cpu", "true", "--cpu"}});
  EXPECT_EQ(rehearsed.config.training.ddp_backend, DdpBackend::kGloo);
  EXPECT_EQ(rehearsed.translated.back().text, "training.ddp_backend: gloo, because use_cpu is true");
}

TEST_F(Rules, RequireModelAndTokenizer) {
  const std::string base = "distributed_type: NO\nuse_cpu: true\ndata: {train: {path: a}}\n";
  EXPECT_EQ(problems(base),
            "f.yaml: model.path (a Hugging Face folder) or model.config (built from scratch) is required");
  EXPECT_EQ(problems(base + "model: {config: {model_type: t5}}\n"),
            "f.yaml: tokenizer.path is required with model.config; `trainer tokenize train` trains one on text");
  const Plan plan = resolve(base + "model: {config: {model_type: t5, d_model: 8}}\ntokenizer: {path: t}\n",
                            {{"model.config.d_model", "16", "--set"}});
  EXPECT_EQ(plan.config.model.config, R"({"model_type":"t5","d_model":16})");
}

TEST_F(Rules, GlobalBatchSizeMustEqualProduct) {
  EXPECT_EQ(
      problems(kMultiCpu +
               "training: {global_batch_size: 10, gradient_accumulation_steps: 2, per_device_train_batch_size: 4}\n"),
      "f.yaml:5:31: training.global_batch_size is 10, but per_device_train_batch_size 4 x gradient_accumulation_steps "
      "2 "
      "x 2 ranks is 16: leave out gradient_accumulation_steps");
  EXPECT_EQ(
      problems(kMultiCpu +
               "training: {global_batch_size: 16, gradient_accumulation_steps: 2, per_device_train_batch_size: 4}\n"),
      "");
  EXPECT_EQ(problems(kMultiCpu + "training: {global_batch_size: 10}\n"), "");
}

TEST_F(Rules, LoraMustBeTrainableAndMatchTask) {
  EXPECT_EQ(problems(kMultiCpu + "lora: {task_type: CAUSAL_LM, inference_mode: true, peft_type: ADALORA}\n"),
            "f.yaml:5:19: lora.task_type CAUSAL_LM doesn't match data.task seq2seq_lm\n"
            "f.yaml:5:46: lora.inference_mode is true, which leaves nothing to train: set it to false\n"
            "f.yaml:5:63: lora.peft_type ADALORA is not supported by this version; LORA, IA3, VERA, LOHA, "
            "PREFIX_TUNING, PROMPT_TUNING and P_TUNING are");
  EXPECT_EQ(problems(kMultiCpu +
                     "lora: {task_type: seq_2_seq_lm, peft_type: lora, init_lora_weights: True, target_modules: q}\n"),
            "");
  EXPECT_EQ(problems(kMultiCpu + "lora: {use_dora: true, rank_pattern: {q: 4}, alpha_pattern: {}, revision: x}\n"), "");
  EXPECT_EQ(resolve(kMultiCpu + "lora: {target_modules: q}\n").config.lora->target_modules.pattern, "q");
}

TEST_F(Rules, CheckLoraLayers) {
  EXPECT_EQ(problems(kMultiCpu + "lora: {target_modules: [q], layers_to_transform: [0, 1], layers_pattern: [h]}\n"),
            "");
  EXPECT_EQ(
      problems(kMultiCpu + "lora: {target_modules: q, layers_to_transform: [1]}\n"),
      "f.yaml:5:48: lora.layers_to_transform needs a list in lora.target_modules, which is the pattern q: select the "
      "layers in the pattern instead");
  EXPECT_EQ(problems(kMultiCpu + "lora: {layers_pattern: [h], rank_pattern: {q: 0}}\n"),
            "f.yaml:5:24: lora.layers_pattern needs lora.layers_to_transform, the indices of the layers\n"
            "f.yaml:5:43: lora.rank_pattern: q is 0; it must be at least 1");
  EXPECT_EQ(problems(kMultiCpu + "lora: {peft_type: ia3, target_modules: [k, wo], feedforward_modules: [wi]}\n"),
            "f.yaml:5:70: lora.feedforward_modules has wi, which is not in lora.target_modules [k, wo]");
}

TEST_F(Rules, CheckVeraAndLoha) {
  EXPECT_EQ(problems(kMultiCpu + "lora: {peft_type: vera, bias: all, exclude_modules: [k]}\n"),
            "f.yaml:5:31: lora.bias is all, but this version trains no biases with VERA: set it to none\n"
            "f.yaml:5:53: lora.exclude_modules is given, but PEFT's VeRA doesn't have it: select the layers with a "
            "pattern in lora.target_modules");
  EXPECT_EQ(problems(kMultiCpu + "lora: {peft_type: loha, rank_dropout: 0.1, module_dropout: 0.2, "
                                 "use_effective_conv2d: true}\n"),
            "f.yaml:5:39: lora.rank_dropout is 0.1, but this version supports LoHa without dropout: set it to 0\n"
            "f.yaml:5:60: lora.module_dropout is 0.2, but this version supports LoHa without dropout: set it to 0\n"
            "f.yaml:5:87: lora.use_effective_conv2d is true, but this version adapts no convolutions: set it to false");
  EXPECT_EQ(problems(kMultiCpu + "lora: {peft_type: loha, rank_dropout: 0, alpha: 4, rank_pattern: {q: 2}}\n"), "");
  EXPECT_EQ(resolve(kMultiCpu + "lora: {peft_type: vera}\n").config.lora->r, 256);
  EXPECT_EQ(resolve(kMultiCpu + "lora: {peft_type: loha}\n").config.lora->r, 8);
}

TEST_F(Rules, CheckLoraInit) {
  for (const char* init : {"pissa", "pissa_niter_4", "olora", "gaussian", "false"})
    EXPECT_EQ(problems(kMultiCpu + "lora: {init_lora_weights: " + init + "}\n"), "") << init;
  for (const char* init : {"eva", "pissa_niter_", "pissa_niter_x", "pissa_niter_1000", "loftq"})
    EXPECT_NE(problems(kMultiCpu + "lora: {init_lora_weights: " + init + "}\n"), "") << init;
}

/// A shortened file of PEFT 0.21 for an adapter trained with transformers.
std::string adapter_file(const std::string& kind, const std::string& keys) {
  return "{\n  \"base_model_name_or_path\": \"t5-small\",\n  \"inference_mode\": true,\n" + keys +
         "  \"peft_type\": \"" + kind + "\",\n  \"task_type\": \"SEQ_2_SEQ_LM\"\n}\n";
}

const std::string kMesh = "distributed_type: MULTI_CPU\nnum_processes: 2\nmodel: {path: m}\ndata: {train: {path: a}}\n";

TEST_F(Rules, CheckAdapterOfAdapterFolder) {
  std::filesystem::create_directories(folder_ / "adapter");
  const auto refused = [&](const std::string& kind, const std::string& keys, const std::string& size) {
    write("adapter/adapter_config.json", adapter_file(kind, keys));
    return problems(kMesh + "parallelism_config: {parallelism_config_" + size + ": 2}\nlora: {path: adapter}\n");
  };
  const std::string tokens = "  \"num_virtual_tokens\": 4,\n";
  EXPECT_EQ(refused("PREFIX_TUNING", tokens, "pp_size"),
            "adapter/adapter_config.json:5:16: lora.peft_type is PREFIX_TUNING, whose prefix is computed for all "
            "blocks at once, but parallelism_config_pp_size is 2: only 1 is supported");
  for (const std::string kind : {"PREFIX_TUNING", "PROMPT_TUNING", "IA3"})
    EXPECT_EQ(refused(kind, tokens, "tp_size"),
              "adapter/adapter_config.json:5:16: lora.peft_type is " + kind +
                  ", but parallelism_config_tp_size is 2: tensor parallelism supports only LORA, VERA and LOHA");
  EXPECT_EQ(refused("LORA", "  \"use_dora\": true,\n", "tp_size"),
            "adapter/adapter_config.json:4:15: lora.use_dora is true, but parallelism_config_tp_size is 2: tensor "
            "parallelism supports only LoRA without DoRA");
  for (const std::string size : {"tp_size", "pp_size"}) EXPECT_EQ(refused("LORA", "  \"r\": 4,\n", size), "");
  for (const std::string kind : {"PROMPT_TUNING", "IA3"}) EXPECT_EQ(refused(kind, tokens, "pp_size"), "");
}

TEST_F(Rules, RefuseADeeplyNestedAdapterConfig) {
  std::filesystem::create_directories(folder_ / "adapter");
  const std::string deep = std::string(400'000, '[') + std::string(400'000, ']');
  write("adapter/adapter_config.json", adapter_file("LORA", "  \"target_modules\": " + deep + ",\n"));
  try {
    problems(kMultiCpu + "lora: {path: adapter}\n");
    ADD_FAILURE() << "accepted";
  } catch (const InputError& error) {
    EXPECT_NE(std::string(error.what()).find("not a JSON object"), std::string::npos) << error.what();
  }
}

TEST_F(Rules, AdapterFolderOverridesLoraOptions) {
  std::filesystem::create_directories(folder_ / "adapter");
  const std::string begin = kMultiCpu + "lora: {path: adapter";
  write("adapter/adapter_config.json",
        adapter_file("LORA",
                     "  \"r\": 4,\n  \"lora_alpha\": 16,\n  \"lora_dropout\": 0.1,\n  \"rank_pattern\": null,\n"
                     "  \"target_modules\": [\"q\", \"k\"],\n"));
  const Plan plan = resolve(begin + "}\n");
  EXPECT_EQ(plan.config.lora->r, 4);
  EXPECT_EQ(plan.config.lora->lora_dropout, 0.1);
  EXPECT_EQ(plan.config.lora->target_modules.names, (std::vector<std::string>{"q", "k"}));
  EXPECT_EQ(without_folder(plan.origins.at("lora.r")), "adapter/adapter_config.json:4:8");
  EXPECT_EQ(plan.config.lora->path, (folder_ / "adapter").string());
  EXPECT_EQ(resolve(begin + ", lora_dropout: 0.3}\n").config.lora->lora_dropout, 0.3) << "the run's own choice";
  EXPECT_EQ(warnings(begin + ", lora_dropout: 0.3, r: 4}\n"), "") << "the same";
  EXPECT_EQ(warnings(begin + ", r: 8, peft_type: IA3}\n"),
            "f.yaml:5:40: lora.peft_type is IA3, but the adapter in lora.path has LORA, which is used\n"
            "f.yaml:5:26: lora.r is 8, but the adapter in lora.path has 4, which is used\n");
  EXPECT_EQ(warnings(begin + ", r: 5}\n"),
            "f.yaml:5:26: lora.r is 5, but the adapter in lora.path has 4, which is used\n");
  EXPECT_EQ(resolve(kMultiCpu + "training: {loraplus_lr_ratio: 4}\nlora: {path: adapter}\n")
                .config.training.loraplus_lr_ratio,
            4);
  write("adapter/adapter_config.json", adapter_file("IA3", ""));
  EXPECT_EQ(warnings(begin + ", use_dora: true}\n"),
            "f.yaml:5:33: lora.use_dora is true, but the adapter in lora.path has false, which is used\n");
}

TEST_F(Rules, BadAdapterFolderIsAnInputError) {
  const auto bad = [&](const std::string& text) {
    try {
      resolve(text);
      return std::string();
    } catch (const InputError& error) {
      return without_folder(error.what());
    }
  };
  const std::string begin = kMultiCpu + "lora: {path: adapter}\n";
  EXPECT_TRUE(bad(begin).starts_with("f.yaml:5:14: lora.path: adapter does not exist.")) << bad(begin);
  std::filesystem::create_directories(folder_ / "adapter");
  EXPECT_TRUE(bad(begin).starts_with("f.yaml:5:14: lora.path: adapter has no adapter_config.json.")) << bad(begin);
  write("adapter/adapter_config.json", adapter_file("P_TUNING", ""));
  EXPECT_EQ(
      bad(begin),
      "f.yaml:5:14: lora.path: adapter/adapter_config.json: a P_TUNING adapter contains the output of its network, "
      "not the network: it can't be trained further.");
  EXPECT_NE(problems(begin + "seed: x\n"), "") << "problems of the file itself come first";
}

TEST_F(Rules, MetricForBestModelMustBeEvaluated) {
  const auto with = [](const std::string& metrics) {
    return kMultiCpu + "checkpoint: {metric_for_best_model: accuracy}\nevaluation: {metrics: [" + metrics +
           "], generate: true}\n";
  };
  EXPECT_EQ(problems(with("loss")),
            "f.yaml:5:37: checkpoint.metric_for_best_model is accuracy, but evaluation.metrics [loss] does not include "
            "it: add accuracy there");
  EXPECT_EQ(problems(with("loss, accuracy")), "");
  EXPECT_EQ(problems(kMultiCpu + "checkpoint: {metric_for_best_model: loss}\n"), "");
  EXPECT_NE(warnings(kLeast + "checkpoint: {metric_for_best_model: loss}\n").find("no effect"), std::string::npos);
}

TEST_F(Rules, CheckPromptTuning) {
  EXPECT_EQ(problems(kMultiCpu + "lora: {peft_type: PROMPT_TUNING, prompt_tuning_init: TEXT}\n"),
            "f.yaml: lora.num_virtual_tokens is required when lora.peft_type is PROMPT_TUNING\n"
            "f.yaml: lora.prompt_tuning_init_text is required when lora.prompt_tuning_init is TEXT");
  EXPECT_EQ(problems(kMultiCpu + "lora: {peft_type: PREFIX_TUNING, prefix_projection: true}\n"),
            "f.yaml: lora.num_virtual_tokens is required when lora.peft_type is PREFIX_TUNING");
  EXPECT_EQ(problems(kMultiCpu + "lora: {peft_type: P_TUNING, num_virtual_tokens: 3, encoder_dropout: 0.1}\n"),
            "f.yaml:5:69: lora.encoder_dropout is 0.1, but this version supports no dropout in the prompt's network: "
            "set it to 0");
}

TEST_F(Rules, ResetPositionIdsNeedsResetAttentionMask) {
  auto given = [](const std::string& options) {
    return "distributed_type: NO\nuse_cpu: true\nmodel: {path: m}\ndata: {task: causal_lm, megatron: {" + options +
           "}, train: {path: a, format: megatron}}\n";
  };
  EXPECT_EQ(problems(given("reset_position_ids: true")),
            "f.yaml:4:56: data.megatron.reset_position_ids needs data.megatron.reset_attention_mask: true: tokens of "
            "two documents with equal positions would attend to each other");
  EXPECT_EQ(problems(given("reset_position_ids: true, reset_attention_mask: true")), "");
}

TEST_F(Rules, CheckEvaluation) {
  EXPECT_EQ(problems(kLeast + "evaluation: {generate: true}\n"),
            "f.yaml:5:24: evaluation.generate needs validation samples: set data.validation.fraction or "
            "data.validation.path");
  EXPECT_EQ(problems(kMultiCpu + "evaluation: {metrics: [loss, accuracy]}\n"),
            "f.yaml:5:23: evaluation.metrics: accuracy compares generated text with labels and needs "
            "evaluation.generate: true");
  EXPECT_EQ(problems(kMultiCpu + "evaluation: {metrics: [los]}\n"),
            "f.yaml:5:23: evaluation.metrics must be one of loss, perplexity, accuracy, exact_match, precision_macro, "
            "recall_macro, f1_macro, f1_micro, f1_weighted, matthews_correlation, rouge1, rouge2, rougeL, bleu, "
            "rewards/chosen, "
            "rewards/rejected, rewards/accuracies, rewards/margins; is 'los' (did you mean 'loss'?)");
}

TEST_F(Rules, RefuseUnsupportedValues) {
  EXPECT_EQ(
      problems("distributed_type: NO\nuse_cpu: true\nmodel: {path: m}\ndata: {train: {path: a}}\n"
               "logging: {report_to: [tensorboard, wand]}\ntraining: {optim: lomo, lr_scheduler_type: greedy}\n"),
      "f.yaml:5:22: logging.report_to must be one of none, all, tensorboard, mlflow, aim, azure_ml, clearml, "
      "codecarbon, comet_ml, dagshub, dvclive, flyte, kubeflow, neptune, swanlab, trackio, wandb; is 'wand' (did you "
      "mean 'wandb'?)\n"
      "f.yaml:6:19: training.optim lomo is not supported by this version\n"
      "f.yaml:6:44: training.lr_scheduler_type greedy is not supported by this version");
}

TEST_F(Rules, TaskMustMatchData) {
  const auto of_data = [&](const std::string& data, const std::string& model = "{path: m}") {
    return problems("distributed_type: NO\nuse_cpu: true\nmodel: " + model + "\ndata: " + data + "\n");
  };
  EXPECT_EQ(of_data("{task: causal_lm, train: {path: a}}"), "");
  EXPECT_EQ(of_data("{task: causal_lm, train: {path: a, format: megatron}}"), "");
  EXPECT_EQ(of_data("{train: {path: a, format: megatron}}"),
            "f.yaml:4:33: data.train.format is megatron, which needs data.task: causal_lm; it is seq2seq_lm");
  EXPECT_EQ(of_data("{task: image_classification, train: {path: a, format: mnist}}", "{config: {model_type: mlp}}"),
            "");
  EXPECT_EQ(of_data("{task: image_classification, train: {path: a}}"),
            "f.yaml:4:14: data.task is image_classification, but data.train.format is auto: image_classification and "
            "mnist require each other");
  EXPECT_EQ(of_data("{dialogue: messages, train: {path: a}}"),
            "f.yaml:4:18: data.dialogue is messages, which needs data.task: causal_lm; it is seq2seq_lm");
  EXPECT_EQ(of_data("{task: sequence_classification, target: '', train: {path: a}}"),
            "f.yaml:4:47: data.target is empty: sequence_classification needs a column to predict");
  EXPECT_EQ(of_data("{task: causal_lm, train: {path: [a, b], weights: [1]}}"),
            "f.yaml:4:56: data.train.weights has 1 numbers, but data.train.path has 2 entries");
  EXPECT_EQ(of_data("{task: causal_lm, train: {path: [a, b], weights: [1, -1]}}"),
            "f.yaml:4:56: data.train.weights must be above 0; one is -1");
}

TEST_F(Rules, ScheduleNeedsItsParameters) {
  EXPECT_EQ(problems(kLeast + "training: {lr_scheduler_type: warmup_stable_decay}\n"),
            "f.yaml: warmup_stable_decay needs num_decay_steps in lr_scheduler_kwargs");
}

TEST_F(Rules, QuantizedWeightsNeedAdaptersAndTheDtypeOfTheRun) {
  const std::string start = "distributed_type: NO\nuse_cpu: true\ndata: {train: {path: a}}\n";
  const auto model = [](const std::string& options) {
    return "model: {path: m, quantization_config: {" + options + "}}\n";
  };
  EXPECT_EQ(
      problems(start + model("load_in_4bit: true")),
      "f.yaml:4:54: model.quantization_config.load_in_4bit is true, but without lora all weights are trained, and "
      "4-bit weights can't be: add a lora section, or leave load_in_4bit out");
  EXPECT_EQ(problems(start + "lora: {r: 4}\n" +
                     model("load_in_4bit: true, bnb_4bit_quant_type: nf4, bnb_4bit_use_double_quant: true, "
                           "bnb_4bit_compute_dtype: float32, llm_int8_skip_modules: [lm_head], load_in_8bit: false")),
            "");
  EXPECT_EQ(
      problems(start + "lora: {r: 4}\n" + model("load_in_4bit: true, bnb_4bit_compute_dtype: bfloat16")),
      "f.yaml:5:84: model.quantization_config.bnb_4bit_compute_dtype is bfloat16, but linear layers compute in "
      "float32, because mixed_precision is 'no': set mixed_precision to bf16, or leave bnb_4bit_compute_dtype out");
  EXPECT_EQ(problems(start + "lora: {r: 4}\nmixed_precision: bf16\n" +
                     model("load_in_4bit: true, bnb_4bit_compute_dtype: bfloat16")),
            "");
  EXPECT_EQ(problems(start + "lora: {r: 4}\n" + model("load_in_8bit: true")),
            "f.yaml:5:40: model.quantization_config.load_in_8bit: true is not supported: use load_in_4bit, or "
            "model.dtype: bfloat16");
  EXPECT_NE(problems(start + "lora: {r: 4}\n" + model("load_in_4bit: true, bnb_4bit_quant_type: int4")).find("nf4"),
            std::string::npos);
  EXPECT_EQ(warnings(start + "lora: {r: 4}\n" + model("bnb_4bit_quant_type: nf4")),
            "f.yaml:5:61: model.quantization_config.bnb_4bit_quant_type has no effect unless "
            "model.quantization_config.load_in_4bit is true\n");
}

/// A file for transformers, with what it adds itself.
TEST_F(Rules, QuantizationConfigOfTransformersIsAccepted) {
  const std::string file =
      kLeast.substr(0, kLeast.find("model:")) + "data: {train: {path: a}}\nlora: {r: 4}\nmodel:\n  path: m\n" +
      "  quantization_config: {_load_in_4bit: true, _load_in_8bit: false, bnb_4bit_compute_dtype: float32, "
      "bnb_4bit_quant_storage: uint8, bnb_4bit_quant_type: nf4, bnb_4bit_use_double_quant: true, "
      "llm_int8_enable_fp32_cpu_offload: false, llm_int8_has_fp16_weight: false, llm_int8_skip_modules: null, "
      "llm_int8_threshold: 6.0, load_in_4bit: true, load_in_8bit: false, quant_method: bitsandbytes}\n";
  const Plan plan = resolve(file);
  EXPECT_EQ(warnings(file), "");
  EXPECT_TRUE(plan.without_effect.empty());
  EXPECT_TRUE(plan.config.model.quantization_config.load_in_4bit);
  EXPECT_EQ(plan.config.model.quantization_config.bnb_4bit_quant_type, "nf4");
}

TEST_F(Rules, WarnAboutOptionsWithoutEffect) {
  EXPECT_EQ(
      warnings(kLeast +
               "training: {sgd_momentum: 0.5, max_steps: 3, num_train_epochs: 2, ddp_bucket_cap_mb: 1}\n"
               "evaluation: {max_new_tokens: 4, eval_steps: 3}\nfsdp_config: {fsdp_sharding_strategy: NO_SHARD}\n"),
      "f.yaml:7:14: fsdp_config has no effect unless distributed_type is FSDP\n"
      "f.yaml:5:63: training.num_train_epochs has no effect unless max_steps is not given\n"
      "f.yaml:5:26: training.sgd_momentum has no effect unless optim is sgd\n"
      "f.yaml:5:85: training.ddp_bucket_cap_mb has no effect unless distributed_type is MULTI_CPU or MULTI_GPU\n"
      "f.yaml:6:45: evaluation.eval_steps has no effect unless there are validation samples\n"
      "f.yaml:6:30: evaluation.max_new_tokens has no effect unless evaluation.generate is true\n");
}

TEST_F(Rules, OptionsOfDdpApplyToGpusToo) {
  const std::string gpus =
      "distributed_type: MULTI_GPU\nnum_processes: 2\nmodel: {path: m}\ndata: {train: {path: a}}\n";
  EXPECT_NE(problems(gpus + "mixed_precision: fp16\ntraining: {ddp_comm_hook: power_sgd}\n")
                .find("training.ddp_comm_hook: power_sgd is not supported with mixed_precision fp16"),
            std::string::npos);
}

TEST_F(Rules, ColumnsFitTheFormat) {
  const std::string start = "distributed_type: NO\nuse_cpu: true\nmodel: {path: m}\n";
  EXPECT_EQ(problems(start + "data: {train: {path: a, format: delimited, columns: [text]}}\n"),
            "f.yaml:4:53: data.train.columns names 1 column; a delimited file has 2");
  EXPECT_EQ(problems(start + "data: {task: causal_lm, train: {path: a, format: text, columns: [a, b]}}\n"),
            "f.yaml:4:65: data.train.columns names 2 columns; a text file has 1");
  EXPECT_EQ(problems(start + "data: {train: {path: a, format: delimited, columns: [a, b]}}\n"), "");
}

TEST_F(Rules, KeysThatADialogueOrATaskIgnoresAreReported) {
  const std::string start = "distributed_type: NO\nuse_cpu: true\nmodel: {path: m}\n";
  EXPECT_EQ(warnings(start + "data: {task: causal_lm, dialogue: messages, source: q, target: a, train: {path: a}}\n"),
            "f.yaml:4:53: data.source has no effect unless data.dialogue is none or prompt\n"
            "f.yaml:4:64: data.target has no effect unless data.dialogue is none or prompt, or dpo is given\n");
  const std::string lengths =
      start + "data: {task: causal_lm, max_target_length: 9, train: {path: a}, validation: {fraction: 0.5}}\n";
  EXPECT_EQ(warnings(lengths),
            "f.yaml:4:44: data.max_target_length has no effect unless data.task is seq2seq_lm, or evaluation generates "
            "with max_new_tokens 0\n");
  EXPECT_EQ(warnings(lengths + "evaluation: {generate: true}\n").find("max_target_length"), std::string::npos);
}

TEST_F(Rules, PreferencesHaveTheirDefaults) {
  const std::string start = "distributed_type: NO\nuse_cpu: true\nmodel: {path: m}\ndata: {train: {path: a}}\n";
  for (const char* const section : {"dpo: {}\n", "dpo: {beta: 0.1}\n"}) {
    const Config config = resolve(start + section).config;
    ASSERT_TRUE(config.dpo) << section;
    EXPECT_EQ(config.data.task, Task::kCausalLm);
    EXPECT_EQ(config.data.source, "prompt");
    EXPECT_EQ(config.data.target, "chosen");
    EXPECT_EQ(config.data.rejected, "rejected");
    EXPECT_EQ(config.dpo->beta, 0.1);
  }
  EXPECT_EQ(resolve(start).config.data.rejected, "");
}

TEST_F(Rules, CheckPreferences) {
  const std::string start =
      "distributed_type: NO\nuse_cpu: true\nmodel: {path: m}\ndata: {train: {path: a}, validation: {fraction: 0.5}}\n"
      "dpo: {}\n";
  EXPECT_EQ(problems(start), "");
  EXPECT_EQ(problems(start, {{"data.task", "seq2seq_lm", "--set"}}),
            "--set: data.task is seq2seq_lm, but dpo compares the replies of causal_lm models: set data.task to "
            "causal_lm, or leave dpo out");
  for (const auto& [option, value, says] : std::vector<std::tuple<const char*, const char*, const char*>>{
           {"data.task", "sequence_classification", "dpo compares the replies of causal_lm models"},
           {"data.rejected", "chosen", "data.rejected and data.target are both chosen"},
           {"data.dialogue", "play", "which has no pairs of replies"},
           {"data.group_texts", "true", "each sample is a pair of replies"},
           {"data.train.format", "megatron", "whose files have no pairs"},
           {"training.label_smoothing_factor", "0.1", "set dpo.label_smoothing instead"},
           {"evaluation.generate", "true", "dpo's evaluation compares the replies of pairs"},
           {"evaluation.metrics", "[perplexity]", "perplexity is not a metric of pairs"},
           {"dpo.label_smoothing", "0.5", "must be below 0.5"},
           {"dpo.beta", "0", "must be above 0"},
           {"dpo.loss_type", "orpo", "orpo"}})
    EXPECT_NE(problems(start, {{option, value, "--set"}}).find(says), std::string::npos)
        << option << ": " << problems(start, {{option, value, "--set"}});
  const std::string ranks =
      "distributed_type: MULTI_CPU\nnum_processes: 2\nuse_cpu: true\nmodel: {path: m}\n"
      "data: {train: {path: a}}\ndpo: {}\nparallelism_config: {parallelism_config_";
  EXPECT_EQ(problems(ranks + "tp_size: 2}\n"), "");
  EXPECT_NE(problems(ranks + "pp_size: 2}\n").find("the loss of a pair needs both of its replies in one stage"),
            std::string::npos);
  EXPECT_NE(problems(ranks + "cp_size: 2}\n").find("the loss of a pair needs all tokens"), std::string::npos);
  EXPECT_NE(problems(start + "lora: {peft_type: PROMPT_TUNING, num_virtual_tokens: 4}\n").find("an untrained prompt"),
            std::string::npos);
  EXPECT_NE(problems(kLeast + "evaluation: {metrics: [rewards/margins]}\n").find("which need dpo"), std::string::npos);
}

TEST_F(Rules, ReportToNoneIsEmpty) {
  EXPECT_TRUE(resolve(kLeast + "logging: {report_to: none}\n").config.logging.report_to.empty());
  EXPECT_EQ(resolve(kLeast + "logging: {report_to: [TensorBoard]}\n").config.logging.report_to,
            std::vector<std::string>{"tensorboard"});
}

TEST_F(Rules, ReportToTakesTheNamesOfTransformersAndAccelerate) {
  using Names = std::vector<std::string>;
  const Plan plan = resolve(kLeast + "logging: {report_to: [wandb, tensorboard, clearml]}\n");
  EXPECT_EQ(plan.config.logging.report_to, Names{"tensorboard"});
  ASSERT_EQ(plan.without_effect.size(), 2U);
  EXPECT_EQ(plan.without_effect[0].key, "logging.report_to");
  EXPECT_EQ(plan.without_effect[0].value, "wandb");
  EXPECT_NE(plan.without_effect[0].text.find("not documented"), std::string::npos);
  unsetenv("MLFLOW_TRACKING_URI");
  EXPECT_EQ(resolve(kLeast + "logging: {report_to: all}\n").config.logging.report_to, Names{"tensorboard"});
  setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:5000", 1);
  EXPECT_EQ(resolve(kLeast + "logging: {report_to: all}\n").config.logging.report_to, (Names{"tensorboard", "mlflow"}));
  unsetenv("MLFLOW_TRACKING_URI");
  for (const std::string& name : trackers_elsewhere()) EXPECT_NE(why_not_tracked(name), "") << name;
}

}  // namespace
}  // namespace trainer::config
