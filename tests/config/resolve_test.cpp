// Resolves files, environment and flags to a plan.
#include "tests/config/given.h"

namespace trainer::config {
namespace {

using Resolve = Given;

TEST_F(Resolve, FillsInDefaultsOfMinimalFile) {
  const Plan plan = resolve(kLeast);
  EXPECT_EQ(plan.world_size(), 1);
  EXPECT_EQ(plan.config.model.path, (folder_ / "m").string());
  EXPECT_EQ(plan.config.tokenizer.path, plan.config.model.path);
  EXPECT_EQ(plan.config.output_dir, (folder_ / "trainer_output").string());
  EXPECT_EQ(plan.config.training.learning_rate, 5e-5);
  EXPECT_FALSE(plan.config.lora);
  EXPECT_TRUE(plan.warnings.empty());
}

TEST_F(Resolve, ReportsAllProblemsAtOnce) {
  EXPECT_EQ(
      problems("distributed_type: FSDP\n"
               "num_procesess: 2\n"
               "seed: -1\n"
               "fsdp_config:\n"
               "  sharding_strategy: FULL\n"
               "  fsdp_wrap: NO_WRAP\n"
               "model:\n"
               "  path: m\n"
               "  config: {model_type: t5}\n"
               "data:\n"
               "  train: {path: [a, [b]], format: xml}\n"
               "lora: {r: 0, lora_alhpa: 3}\n"
               "training:\n"
               "  learning_rate: fast\n"
               "  max_new_tokens: 3\n"
               "  num_train_epochs: [1]\n"
               "evaluation: 3\n"
               "learning_rate: 1\n"
               "evaluaton: {}\n"),
      "f.yaml:1:19: distributed_type FSDP with use_cpu false trains on GPUs, and this build has no GPU support: "
      "--cpu (or use_cpu: true) trains on the CPU instead\n"
      "f.yaml:2:1: num_procesess is not an option (did you mean 'num_processes'?)\n"
      "f.yaml:3:7: seed must be at least 0; is -1\n"
      "f.yaml:5:22: fsdp_config.fsdp_sharding_strategy must be one of FULL_SHARD, SHARD_GRAD_OP, NO_SHARD, "
      "HYBRID_SHARD, HYBRID_SHARD_ZERO2; is 'FULL'\n"
      "f.yaml:6:3: fsdp_config.fsdp_wrap is not an option\n"
      "f.yaml:9:11: model.path and model.config exclude each other: set only one of them\n"
      "f.yaml:11:17: data.train.path must be a list of texts; one of its items is a list\n"
      "f.yaml:11:35: data.train.format must be one of auto, delimited, csv, tsv, json, jsonl, text, parquet, arrow, "
      "mnist, megatron; is 'xml'\n"
      "f.yaml:12:11: lora.r must be at least 1; is 0\n"
      "f.yaml:12:14: lora.lora_alhpa is not an option (did you mean 'lora_alpha'?)\n"
      "f.yaml:14:18: training.learning_rate must be a number; is 'fast'\n"
      "f.yaml:15:3: training.max_new_tokens belongs under evaluation\n"
      "f.yaml:16:21: training.num_train_epochs must be a number; is a list\n"
      "f.yaml:17:13: evaluation must be a group of keys; is '3'\n"
      "f.yaml:18:1: learning_rate belongs under training\n"
      "f.yaml:19:1: evaluaton is not an option (did you mean 'evaluation'?)");
}

TEST_F(Resolve, RefusesEmptyFilesAndOtherDocuments) {
  EXPECT_EQ(problems(""), "f.yaml: is empty; `trainer config --config_file f.yaml` creates its content");
  EXPECT_EQ(problems("# nothing\n{}\n"), problems(""));
  EXPECT_EQ(problems("- a\n"), "f.yaml:1:1: must be lines of 'key: value'; is a list");
  EXPECT_EQ(problems("seed:1\n"),
            "f.yaml:1:1: must be lines of 'key: value'; is 'seed:1': a space is missing after ':'");
  EXPECT_THROW(resolve_plan({(folder_ / "none.yaml").string(), "", {}}), ConfigError);
}

TEST_F(Resolve, LimitsNumberOfReportedProblems) {
  std::string text = kLeast;
  for (int i = 0; i < 60; ++i) text += fmt::format("unknown{}: 1\n", i);
  const std::string found = problems(text);
  EXPECT_EQ(std::count(found.begin(), found.end(), '\n'), 50);
  EXPECT_TRUE(found.ends_with("\n… and 10 more"));
}

TEST_F(Resolve, LaterSourcesWin) {
  const std::string file =
      write("f.yaml", kLeast + "training: {learning_rate: 1, weight_decay: 1, max_grad_norm: 1}\n");
  const std::string job = write("job.yaml", "training: {weight_decay: 2, max_grad_norm: 2}\nmixed_precision: bf16\n");
  setenv("ACCELERATE_MIXED_PRECISION", "no", 1);
  const Plan plan = resolve_plan({file, job, {{"training.max_grad_norm", "3", "--set"}}});
  EXPECT_EQ(plan.config.training.learning_rate, 1);
  EXPECT_EQ(plan.config.training.weight_decay, 2);
  EXPECT_EQ(plan.config.training.max_grad_norm, 3);
  EXPECT_EQ(plan.config.mixed_precision, MixedPrecision::kNo);
  EXPECT_EQ(without_folder(plan.origins.at("training.learning_rate")), "f.yaml:5:27");
  EXPECT_EQ(without_folder(plan.origins.at("training.weight_decay")), "job.yaml:1:26");
  EXPECT_EQ(plan.origins.at("training.max_grad_norm"), "--set");
  EXPECT_EQ(plan.origins.at("mixed_precision"), "environment ACCELERATE_MIXED_PRECISION");
  EXPECT_EQ(plan.origins.at("seed"), "default");
  EXPECT_EQ(plan.origins.at("tokenizer.path"), "model.path");
}

TEST_F(Resolve, AcceptsBadValueThatIsOverridden) {
  EXPECT_EQ(problems(kLeast + "training: {learning_rate: -1}\n", {{"training.learning_rate", "1", "--set"}}), "");
}

TEST_F(Resolve, ProblemsOfFlagsBeginWithTheFlag) {
  EXPECT_EQ(problems(kLeast, {{"training.lerning_rate", "1", "--set"}, {"seed", "x", "--seed"}}),
            "--set: training.lerning_rate is not an option (did you mean 'learning_rate'?)\n"
            "--seed: seed must be an integer; is 'x'");
  EXPECT_EQ(problems(kLeast, {{"training", "3", "--set"}}), "--set: training must be a group of keys; is '3'");
  EXPECT_EQ(problems(kLeast, {{"", "3", "--set"}}), "--set:  is not an option");
  EXPECT_EQ(problems(kLeast, {{"seed.x", "3", "--set"}}), "--set: seed must be an integer; is a group of keys");
}

TEST_F(Resolve, FlagsCanContainYaml) {
  const Plan plan = resolve(kLeast + "lora: {r: 4}\n",
                            {{"lora.target_modules", "[q, v]", "--set"}, {"data.source", "{a}: {b}", "--set"}});
  EXPECT_EQ(plan.config.lora->target_modules.names, (std::vector<std::string>{"q", "v"}));
  EXPECT_EQ(plan.config.lora->r, 4);
  EXPECT_EQ(plan.config.data.source, "{a}: {b}");
  EXPECT_FALSE(resolve(kLeast + "lora: {r: 4}\n", {{"lora", "null", "--set"}}).config.lora);
  EXPECT_TRUE(resolve(kLeast + "lora: {}\n").config.lora);
}

TEST_F(Resolve, PathsAreRelativeToTheirFile) {
  std::filesystem::create_directories(folder_ / "sub");
  const std::string file = write("f.yaml", kLeast + "output_dir: runs/a/\ntokenizer: {path: /t/x}\n");
  const std::string job = write("sub/job.yaml", "data: {train: {path: [../b.txt, '*.csv']}}\n");
  const Plan plan = resolve_plan({file, job, {{"model.path", "here", "--set"}}});
  EXPECT_EQ(plan.config.output_dir, (folder_ / "runs/a").string());
  EXPECT_EQ(plan.config.tokenizer.path, "/t/x");
  EXPECT_EQ(plan.config.data.train.path,
            (std::vector<std::string>{(folder_ / "b.txt").string(), (folder_ / "sub/*.csv").string()}));
  EXPECT_EQ(plan.config.model.path, (std::filesystem::current_path() / "here").string());
  EXPECT_EQ(plan.config.checkpoint.resume_from_checkpoint, "auto");
  EXPECT_EQ(
      resolve(kLeast + "checkpoint: {resume_from_checkpoint: checkpoint-3}\n").config.checkpoint.resume_from_checkpoint,
      (folder_ / "checkpoint-3").string());
  EXPECT_EQ(resolve(kLeast + "checkpoint: {resume_from_checkpoint: No}\n").config.checkpoint.resume_from_checkpoint,
            "false");
}

TEST_F(Resolve, ChatTemplateIsFileNameOrTemplate) {
  std::filesystem::create_directories(folder_ / "sub");
  const std::string file = write("f.yaml", kLeast);
  const auto resolved = [&](const std::string& given) {
    return resolve_plan(
               {file,
                write("sub/job.yaml", "data: {task: causal_lm, dialogue: messages, chat_template: " + given + "}\n"),
                {}})
        .config.data.chat_template;
  };
  EXPECT_EQ(resolved("t.jinja"), (folder_ / "sub/t.jinja").string());
  EXPECT_EQ(resolved("ChatML"), "chatml");
  EXPECT_EQ(resolved("''"), "");
  const std::string itself = "{% if messages %}" + std::string(300, 'x') + "{% endif %}";
  EXPECT_EQ(resolved("'" + itself + "'"), itself);
}

TEST_F(Resolve, ExpandsEnvironmentVariables) {
  setenv("CONFIG_TEST_A", "aa", 1);
  setenv("CONFIG_TEST_EMPTY", "", 1);
  unsetenv("CONFIG_TEST_NONE");
  const std::string data = "distributed_type: NO\nuse_cpu: true\nmodel: {path: m}\ndata: {train: {path: a}, source: '";
  EXPECT_EQ(resolve(data + "x${CONFIG_TEST_A}y${CONFIG_TEST_NONE:-z}'}\n").config.data.source, "xaayz");
  EXPECT_EQ(resolve(data + "${CONFIG_TEST_EMPTY}|${CONFIG_TEST_EMPTY:-d}|${CONFIG_TEST_NONE:-}'}\n").config.data.source,
            "|d|");
  EXPECT_EQ(resolve(data + "$${A} $5 {b}'}\n").config.data.source, "${A} $5 {b}");
  EXPECT_EQ(
      problems(data + "${CONFIG_TEST_NONE}'}\n"),
      "f.yaml:4:34: the environment variable 'CONFIG_TEST_NONE' is not set; write ${CONFIG_TEST_NONE:-default} to give "
      "it a default");
  EXPECT_EQ(problems(data + "${CONFIG_TEST_A'}\n"),
            "f.yaml:4:34: '${' has no closing '}'; write '$${' for a literal '${'");
  setenv("CONFIG_TEST_DOLLAR", "a$", 1);
  EXPECT_EQ(resolve(data + "${CONFIG_TEST_DOLLAR}${CONFIG_TEST_A}'}\n").config.data.source, "a$aa");
  setenv("CONFIG_TEST_N", "7", 1);
  EXPECT_EQ(resolve(kLeast + "seed: ${CONFIG_TEST_N}\n").config.seed, 7);
}

TEST_F(Resolve, NullMeansNotWritten) {
  const Plan plan = resolve(kLeast + "num_processes:\nlora: ~\ntraining: null\nmain_process_ip: null\n");
  EXPECT_FALSE(plan.config.lora);
  EXPECT_EQ(plan.origins.at("num_processes"), "default");
}

TEST_F(Resolve, RefusesKeysWithoutValue) {
  EXPECT_EQ(
      problems(kLeast + "seed:\ntraining:\n  max_steps:\n  learning_rate: # none\nlora:\n"),
      "f.yaml:5:1: seed has no value: write one after the ':', or leave the line out for the default\n"
      "f.yaml:7:3: training.max_steps has no value: write one after the ':', or leave the line out for the default\n"
      "f.yaml:8:3: training.learning_rate has no value: write one after the ':', or leave the line out for the "
      "default\n"
      "f.yaml:9:1: lora has no keys: write them below it, indented, or leave the line out");
  EXPECT_EQ(problems(kLeast + "seed: null\ntraining: {max_steps: ~, learning_rate: Null}\nlora: ~ # none\n"), "");
  EXPECT_EQ(
      problems(kLeast + "training: {max_steps: , seed: 1, learning_rate: null}\n"),
      "f.yaml:5:12: training.max_steps has no value: write one after the ':', or leave the line out for the default");
  EXPECT_EQ(problems(R"({"distributed_type": "NO", "use_cpu": true, "model": {"path": "m"}, "seed": null,
                         "data": {"train": {"path": "a.txt"}}, "training": {"max_steps": null}, "lora": null})"),
            "");
  EXPECT_EQ(problems(kLeast + "gpu_ids:\nfsdp_config:\nmain_process_port:\n"), "") << "as Accelerate reads its part";
}

TEST_F(Resolve, RefusesAmbiguousNumbersAndBooleans) {
  const std::pair<const char*, const char*> cases[] = {
      {"training: {max_steps: 1e3}", "23: training.max_steps must be an integer in digits; is '1e3': write 1000"},
      {"training: {max_steps: 1_000}", "23: training.max_steps must be an integer in digits; is '1_000': write 1000"},
      {"training: {max_steps: +5}", "23: training.max_steps must be an integer in digits; is '+5': write 5"},
      {"training: {max_steps: 5.0}", "23: training.max_steps must be an integer in digits; is '5.0': write 5"},
      {"training: {max_steps: '5'}", "23: training.max_steps is the text '5', because it is in quotes: write 5"},
      {"training: {learning_rate: \"1e-3\"}",
       "27: training.learning_rate is the text '1e-3', because it is in quotes: write 1e-3"},
      {"deterministic: 'No'", "16: deterministic is the text 'No', because it is in quotes: write false"},
  };
  for (const auto& [text, problem] : cases)
    EXPECT_EQ(problems(kLeast + text + "\n"), std::string("f.yaml:5:") + problem);
  for (const char* text :
       {"training: {max_steps: 1000, learning_rate: 1e-3, weight_decay: 0}", "deterministic: yes",
        "checkpoint: {resume_from_checkpoint: 'true'}", "num_processes: '1'", "training: {max_steps: '${NOTHING:-7}'}",
        "fsdp_config: {fsdp_min_num_params: 1e8}", "tokenizer: {path: '7'}"})
    EXPECT_EQ(problems(kLeast + text + "\n"), "") << text;
  EXPECT_EQ(problems(kLeast, {{"training.max_steps", "1e3", "--set"}}),
            "--set: training.max_steps must be an integer in digits; is '1e3': write 1000");
}

TEST_F(Resolve, RefusesDuplicateKeys) {
  EXPECT_EQ(problems(kLeast + "seed: 1\nseed: 2\n"),
            "f.yaml:6:1: 'seed' is given twice, with another value on line 5: leave one of them out");
  EXPECT_EQ(problems(kLeast + "fsdp_config: {sharding_strategy: 1, fsdp_sharding_strategy: 1}\n"),
            "f.yaml:5:37: fsdp_config.fsdp_sharding_strategy is the same option as fsdp_sharding_strategy, which is "
            "also given");
}

}  // namespace
}  // namespace trainer::config
