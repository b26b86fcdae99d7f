// Files of other trainers, converted.
#include "engine/config/convert/convert.h"

#include "engine/base/files.h"
#include "engine/config/pages/file_text.h"
#include "tests/config/given.h"
#include "tests/support/source_dir.h"

namespace trainer::config {
namespace {

class Convert : public Given {
 protected:
  Conversion converted(const std::string& text, const std::string& from = "") {
    return convert(write("theirs.yaml", text), from, folder_.string());
  }
  std::string yaml(const std::string& text) {
    return file_text(converted(text).document, FileFormat::kYaml, "`trainer convert`");
  }
  std::string failure(const std::string& text, const std::string& from = "") {
    try {
      converted(text, from);
      return "";
    } catch (const ConfigError& error) {
      return without_folder(error.what());
    }
  }
  /// The keys that are not honored, then a bar and the unknown ones.
  std::string rest(const std::string& text) {
    std::string keys;
    const Conversion done = converted(text);
    for (const Note& note : done.not_honored) keys += note.key + " ";
    keys += "|";
    for (const Note& note : done.unknown) keys += " " + note.key;
    return keys;
  }
};

const std::string kAxolotl = "base_model: org/model\nmicro_batch_size: 2\n";
const std::string kLlamaFactory = "model_name_or_path: org/model\nfinetuning_type: full\n";

TEST_F(Convert, Axolotl) {
  EXPECT_EQ(yaml("base_model: org/model\nload_in_4bit: true\nadapter: qlora\nlora_r: 32\nlora_target_linear: true\n"
                 "datasets:\n  - path: org/talks\n    type: chat_template\n    field_messages: conversations\n"
                 "    message_property_mappings: {role: from, content: value}\n"
                 "sequence_len: 4096\nbf16: auto\nlr_scheduler: cosine\ncosine_min_lr_ratio: 0.1\nwarmup_ratio: 0.1\n"
                 "batch_size: 8\nmicro_batch_size: 2\ngradient_checkpointing: offload\nsaves_per_epoch: 1\n"
                 "output_dir: out\n"),
            "# By `trainer convert`. A last line says that the file is whole.\n"
            "distributed_type: 'NO'\nmixed_precision: bf16\nnum_processes: 1\n"
            "# What to train, and how. Accelerate itself does not know these sections.\n"
            "output_dir: out\n"
            "model:\n  path: org/model\n  quantization_config:\n    load_in_4bit: true\n    bnb_4bit_quant_type: nf4\n"
            "    bnb_4bit_use_double_quant: true\n"
            "data:\n  task: causal_lm\n  train:\n    path:\n    - org/talks\n  max_length: 4096\n  on_too_long: drop\n"
            "  dialogue: sharegpt\n  messages: conversations\n"
            "lora:\n  r: 32\n  target_modules: all-linear\n"
            "training:\n  per_device_train_batch_size: 2\n  gradient_accumulation_steps: 4\n  num_train_epochs: 1\n"
            "  lr_scheduler_type: cosine_with_min_lr\n  lr_scheduler_kwargs:\n    min_lr_rate: 0.1\n"
            "  warmup_steps: 0.1\n  gradient_checkpointing: true\n  activation_offloading: true\n"
            "checkpoint:\n  save_strategy: epoch\n"
            "# This is the end of the file.\n");
}

TEST_F(Convert, LlamaFactoryHasItsOwnDefaults) {
  write("dataset_info.json", R"({"a": {"file_name": "a.json"}})");
  const Config config = resolve(yaml("model_name_or_path: org/model\nstage: sft\nlora_rank: 4\n"
                                     "lora_target: q_proj, v_proj\ndataset: a\ndataset_dir: " +
                                     folder_.string() + "\n") +
                                "use_cpu: true\n")
                            .config;
  EXPECT_EQ(config.lora->r, 4);
  EXPECT_EQ(config.lora->lora_alpha, 8);  // twice the rank
  EXPECT_EQ(config.lora->target_modules.names, (std::vector<std::string>{"q_proj", "v_proj"}));
  EXPECT_TRUE(config.training.gradient_checkpointing);
  EXPECT_EQ(config.data.max_length, 2048);
}

TEST_F(Convert, ReadsLlamaFactorysDatasetInfo) {
  write("dataset_info.json", R"({"a": {"file_name": "a.json"}, "b": {"file_name": "b.json"},
    "talks": {"file_name": "t.json", "formatting": "sharegpt", "columns": {"messages": "turns"}}})");
  for (const char* const name : {"a.json", "b.json", "t.json"}) write(name, "[]");
  const std::string text = kLlamaFactory + "dataset_dir: " + folder_.string() + "\nmax_samples: 5\ndataset: ";
  const std::string two = without_folder(yaml(text + "a, b\n"));
  EXPECT_NE(two.find("path:\n    - a.json\n    - b.json\n"), std::string::npos) << two;
  EXPECT_NE(two.find("dialogue: alpaca"), std::string::npos) << two;
  EXPECT_EQ(two.find("max_samples"), std::string::npos) << two;
  EXPECT_EQ(rest(text + "a, b\n"), "max_samples |");
  const std::string talks = yaml(text + "talks\n");
  EXPECT_NE(talks.find("max_samples: 5\n"), std::string::npos) << talks;
  EXPECT_NE(talks.find("dialogue: sharegpt\n  messages: turns\n"), std::string::npos) << talks;
  EXPECT_EQ(rest(text + "a, talks\n"), "dataset |");
  EXPECT_NE(failure(text + "c\n").find("c is not in "), std::string::npos);
}

TEST_F(Convert, AxolotlsDatasetTypes) {
  const auto type = [&](const std::string& keys) {
    const std::string text = yaml(kAxolotl + "datasets: [{path: org/data, " + keys + "}]\n");
    const std::size_t at = text.find("data:\n");
    return text.substr(at, text.find("training:\n") - at);
  };
  const auto contains = [&](const std::string& keys, const std::string& part) {
    EXPECT_NE(type(keys).find(part), std::string::npos) << type(keys);
  };
  contains("type: completion, field: body",
           "  source: body\n  max_length: 512\n  on_too_long: drop\n  group_texts: true\n");
  contains("type: alpaca", "  dialogue: alpaca\n  system: Below is an instruction that describes a task. Write a");
  contains("type: 'alpaca:chat'", "USER: ");
  contains("type: oasst", "{INSTRUCTION}\\n\\n### Response:\\n\"\n  target: '{RESPONSE}'\n");
  contains("type: jeopardy", "  target: what is {answer}\n");
  contains("type: chat_template, message_property_mappings: {role: from, content: value}", "  messages: messages\n");
  contains("type: {field_instruction: q, field_output: a, no_input_format: 'Q: {instruction} {{A}}:'}",
           "  source: 'Q: {q} {{A}}:'\n  target: '{a}'\n");
  contains("type: {field_instruction: input, field_input: b, field_output: a, format: '{instruction} {input}'}",
           "  source: '{input} {b}'\n");
  for (const char* const name :
       {"input_output", "pygmalion", "reflection", "metharme", "chat_template.argilla", "''"}) {
    const std::string text = kAxolotl + "datasets: [{path: org/data, type: " + std::string(name) + "}]\n";
    EXPECT_EQ(yaml(text).find("train:"), std::string::npos) << name;
    EXPECT_NE(rest(text), "|") << name;
  }
}

TEST_F(Convert, LlamaFactorysColumnsAndTags) {
  write("dataset_info.json", R"({
    "named": {"file_name": "a.json", "columns": {"prompt": "q", "response": "a", "system": "s"}, "num_samples": 9},
    "two": {"file_name": "a.json", "columns": {"prompt": "q", "query": "more", "response": "a"}},
    "usual": {"file_name": "a.json", "columns": {"prompt": "instruction", "query": "input", "response": "output"}},
    "openai": {"file_name": "a.json", "formatting": "sharegpt", "columns": {"messages": "turns"},
      "tags": {"role_tag": "role", "content_tag": "content", "user_tag": "user", "assistant_tag": "assistant"}},
    "odd": {"file_name": "a.json", "formatting": "sharegpt", "tags": {"role_tag": "role", "content_tag": "content"}},
    "liked": {"file_name": "a.json", "ranking": true}, "seen": {"file_name": "a.json", "columns": {"images": "i"}}})");
  const std::string text = kLlamaFactory + "dataset_dir: " + folder_.string() + "\ndataset: ";
  const auto contains = [&](const std::string& name, const std::string& part) {
    EXPECT_NE(yaml(text + name + "\n").find(part), std::string::npos) << yaml(text + name + "\n");
  };
  contains("named", "  source: q\n  target: a\n");
  contains("named", "  max_samples: 9\n  max_samples_choice: random\n");
  EXPECT_EQ(rest(text + "named\n"), "named.system |");
  contains("two", "  source: \"{q}\\n{more}\"\n  target: a\n");
  contains("usual", "dialogue: alpaca\n");
  contains("openai", "dialogue: messages\n  messages: turns\n");
  for (const char* const name : {"odd", "liked", "seen"}) EXPECT_EQ(rest(text + name + "\n"), "dataset |") << name;
}

TEST_F(Convert, TrainingArgumentsAsJson) {
  for (const char* const version : {"version_4.json", "version_5.json"}) {
    const Conversion done = converted(read_file(source_dir() + "/tests/config/training_arguments/" + version));
    EXPECT_STREQ(done.dialect->name, "training_arguments") << version;
    EXPECT_TRUE(done.unknown.empty()) << version << ": " << (done.unknown.empty() ? "" : done.unknown[0].key);
    const Config config = resolve(file_text(done.document, FileFormat::kYaml, "") +
                                  "model: {path: m}\ndata: {train: {path: a}, validation: {fraction: 0.1}}\n")
                              .config;
    EXPECT_EQ(config.training.per_device_train_batch_size, 16);
    EXPECT_EQ(config.training.gradient_accumulation_steps, 2);
    EXPECT_EQ(config.training.learning_rate, 2e-5);
    EXPECT_EQ(config.training.num_train_epochs, 4);
    EXPECT_EQ(config.training.lr_scheduler_type, Schedule::kCosine);
    EXPECT_EQ(config.training.warmup_steps, 50);
    EXPECT_EQ(config.seed, 7);
    EXPECT_TRUE(config.use_cpu);
    EXPECT_EQ(config.checkpoint.metric_for_best_model, "accuracy");
    EXPECT_TRUE(config.checkpoint.load_best_model_at_end);
    EXPECT_EQ(config.checkpoint.save_total_limit, 2);
    EXPECT_EQ(config.evaluation.metrics, (std::vector<std::string>{"loss", "accuracy"}));
    EXPECT_EQ(config.evaluation.eval_steps, 100);
    EXPECT_EQ(config.evaluation.max_new_tokens, 32);
    EXPECT_TRUE(config.evaluation.generate);
    EXPECT_EQ(config.logging.report_to, std::vector<std::string>{"tensorboard"});
  }
}

TEST_F(Convert, ListsValuesThatAreNotSupported) {
  const std::string text = kAxolotl + "metric_for_best_model: rouge9\nload_best_model_at_end: true\nsave_steps: 0.25\n";
  EXPECT_EQ(rest(text), "save_steps metric_for_best_model |");
  EXPECT_NE(yaml(text).find("  metric_for_best_model: loss\n  load_best_model_at_end: true\n"), std::string::npos);
  EXPECT_EQ(rest(kAxolotl + "metric_for_best_model: eval_accuracy\n"), "|");
}

TEST_F(Convert, TrainingArguments) {
  const Conversion done = converted(
      R"({"learning_rate": 1e-4, "bf16": true, "eval_strategy": "steps", "eval_steps": 7, "neftune_noise_alpha": 5,
          "optim_target_modules": "all", "torch_compile": true, "logging_dir": null, "hub_token": "<HUB_TOKEN>", "of_a_subclass": 1})");
  EXPECT_STREQ(done.dialect->name, "training_arguments");
  const std::string text = file_text(done.document, FileFormat::kYaml);
  for (const char* const line :
       {"mixed_precision: bf16\n", "  learning_rate: 0.0001\n", "  eval_steps: 7\n", "  neftune_noise_alpha: 5\n"})
    EXPECT_NE(text.find(line), std::string::npos) << text;
  std::vector<std::string> keys;
  for (const Note& note : done.not_honored) {
    keys.push_back(note.key);
    EXPECT_NE(note.origin.find("theirs.yaml:"), std::string::npos) << note.origin;
    EXPECT_EQ(note.value.find("HUB"), std::string::npos);
  }
  EXPECT_EQ(keys, (std::vector<std::string>{"optim_target_modules", "torch_compile", "hub_token"}));
  ASSERT_EQ(done.unknown.size(), 1U);
  EXPECT_EQ(done.unknown.front().key, "of_a_subclass");
}

TEST_F(Convert, ListsWhatIsNotHonored) {
  EXPECT_EQ(
      rest(kAxolotl + "sample_packing: true\noptimizer: came_pytorch\nlora_r: 8\nxyz: 1\nwandb_project:\n"
                      "report_to: [tensorboard, wandb]\nval_set_size: 20\ndeepspeed: zero3.json\n"
                      "datasets: [{path: a, type: alpaca, split: test, odd: 1}, {path: b, type: jeopardy}]\n"),
      "report_to deepspeed optimizer lora_r datasets[0].split datasets[0].type datasets[1] val_set_size sample_packing "
      "| xyz datasets[0].odd");
}

TEST_F(Convert, KeysOfAdaptersNeedAnAdapter) {
  const std::string text = yaml(kAxolotl + "lora_r: 8\n");
  EXPECT_EQ(text.find("lora"), std::string::npos) << text;
}

TEST_F(Convert, RefusesPreferencesAndBadValuesTogether) {
  EXPECT_EQ(
      failure(kAxolotl + "rl: kto\nnum_epochs: many\nload_in_4bit: perhaps\nlearning_rate: fast\ndatasets: 5\n"),
      "theirs.yaml:3:5: rl: kto is not supported: of preferences, only pairs are learned (dpo and ipo); there are "
      "no rewards\n"
      "theirs.yaml:4:13: training.num_train_epochs must be a number; is 'many'\n"
      "theirs.yaml:5:15: load_in_4bit must be true or false; is 'perhaps'\n"
      "theirs.yaml:6:16: training.learning_rate must be a number; is 'fast'\n"
      "theirs.yaml:7:11: datasets must be a list; is '5'");
  for (const char* const stage : {"kto", "ppo", "rm"})
    EXPECT_NE(failure(kLlamaFactory + "stage: " + stage + "\n").find("is not supported"), std::string::npos) << stage;
}

TEST_F(Convert, PairsOfAxolotl) {
  const Config config =
      resolve(yaml(kAxolotl + "rl: ipo\nrl_beta: 0.2\nrpo_alpha: 0.7\ndatasets: [{path: a, type: chatml.intel}]\n") +
              "use_cpu: true\n")
          .config;
  ASSERT_TRUE(config.dpo);
  EXPECT_EQ(config.dpo->loss_type, PreferenceLoss::kIpo);
  EXPECT_EQ(config.dpo->beta, 0.2);
  EXPECT_EQ(config.dpo->rpo_alpha, 0.7);
  EXPECT_EQ(config.data.dialogue, Dialogue::kPrompt);
  EXPECT_EQ(config.data.source, "question");
  EXPECT_EQ(config.data.target, "chosen");
  EXPECT_EQ(config.data.rejected, "rejected");
  EXPECT_EQ(config.data.chat_template, "chatml");
  const Config turns = resolve(yaml(kAxolotl + "rl: dpo\ndatasets: [{path: a, type: chat_template.default, "
                                               "field_messages: talk, field_chosen: good}]\n") +
                               "use_cpu: true\n")
                           .config;
  EXPECT_EQ(turns.dpo->loss_type, PreferenceLoss::kSigmoid);
  EXPECT_EQ(turns.data.dialogue, Dialogue::kMessages);
  EXPECT_EQ(turns.data.messages, "talk");
  EXPECT_EQ(turns.data.target, "good");
  EXPECT_EQ(rest(kAxolotl + "rl_beta: 0.2\n"), "rl_beta |");
}

TEST_F(Convert, PairsOfLlamaFactory) {
  write("dataset_info.json", R"({
    "turns": {"file_name": "a.json", "ranking": true, "formatting": "sharegpt",
              "columns": {"messages": "conversations", "chosen": "good", "rejected": "bad"}},
    "orca": {"file_name": "b.json", "ranking": true, "columns": {"prompt": "question", "system": "system"}},
    "plain": {"file_name": "c.json"}})");
  const auto read = [&](const std::string& more) {
    return kLlamaFactory + "stage: dpo\ndataset_dir: " + folder_.string() + "\n" + more;
  };
  const Config config =
      resolve(yaml(read("dataset: turns\npref_loss: hinge\npref_beta: 0.3\npref_ftx: 0.5\n")) + "use_cpu: true\n")
          .config;
  ASSERT_TRUE(config.dpo);
  EXPECT_EQ(config.dpo->loss_type, PreferenceLoss::kHinge);
  EXPECT_EQ(config.dpo->beta, 0.3);
  EXPECT_EQ(config.dpo->rpo_alpha, 0.5);
  EXPECT_EQ(config.data.dialogue, Dialogue::kShareGpt);
  EXPECT_EQ(config.data.messages, "conversations");
  EXPECT_EQ(config.data.target, "good");
  EXPECT_EQ(config.data.rejected, "bad");
  const Config orca = resolve(yaml(read("dataset: orca\n")) + "use_cpu: true\n").config;
  EXPECT_EQ(orca.data.dialogue, Dialogue::kPrompt);
  EXPECT_EQ(orca.data.source, "question");
  EXPECT_EQ(orca.data.rejected, "rejected");
  EXPECT_EQ(rest(read("dataset: orca\n")), "|") << "its column has the name that is read";
  EXPECT_EQ(rest(read("dataset: plain\n")), "dataset |");
  EXPECT_NE(failure(read("pref_loss: simpo\n")).find("pref_loss: simpo is not supported"), std::string::npos);
}

const std::string kTrlSft =
    "model_name_or_path: Qwen/Qwen2.5-0.5B\ndataset_name: trl-lib/Capybara\nassistant_only_loss: true\n";
const std::string kTrlDpo =
    "model_name_or_path: Qwen/Qwen2-0.5B-Instruct\ndataset_name: trl-lib/ultrafeedback_binarized\nbeta: 0.05\n";

TEST_F(Convert, TrlSft) {
  const std::string text =
      kTrlSft +
      "torch_dtype: bfloat16\nuse_peft: true\nlora_target_modules: [all-linear]\nmax_length: 2048\n"
      "packing: true\nlearning_rate: 2.0e-4\nper_device_train_batch_size: 2\n"
      "gradient_accumulation_steps: 8\neos_token: '<|im_end|>'\neval_strategy: steps\n"
      "eval_steps: 100\noutput_dir: out\npush_to_hub: true\nxyz: 1\n";
  EXPECT_STREQ(converted(text).dialect->name, "trl_sft");
  const Config config = resolve(yaml(text) + "use_cpu: true\n").config;
  EXPECT_FALSE(config.dpo);
  ASSERT_TRUE(config.lora);
  EXPECT_EQ(config.lora->r, 16);
  EXPECT_EQ(config.lora->lora_alpha, 32);
  EXPECT_EQ(config.lora->lora_dropout, 0.05);
  EXPECT_EQ(config.lora->target_modules.pattern, "all-linear");
  EXPECT_EQ(config.model.dtype, "bfloat16");
  EXPECT_EQ(config.data.dialogue, Dialogue::kMessages);
  EXPECT_EQ(config.data.learn, Learn::kAssistant);
  EXPECT_EQ(config.data.max_length, 2048);
  EXPECT_EQ(config.training.learning_rate, 2e-4);
  EXPECT_TRUE(config.training.gradient_checkpointing);
  EXPECT_EQ(config.mixed_precision, MixedPrecision::kBf16);
  EXPECT_EQ(config.logging.logging_steps, 10);
  EXPECT_EQ(rest(text), "dataset_test_split (left out, so its default) packing eos_token push_to_hub | xyz");
}

TEST_F(Convert, TrlDpoOfAllWeights) {
  const std::string text = kTrlDpo +
                           "dtype: float32\nloss_type: [sigmoid, sft]\nloss_weights: [1.0, 0.2]\n"
                           "precompute_ref_log_probs: true\nlora_r: 8\nmax_prompt_length: 512\n"
                           "dataset_test_split: validation\neval_strategy: epoch\n";
  EXPECT_STREQ(converted(text).dialect->name, "trl_dpo");
  const Config config = resolve(yaml(text) + "use_cpu: true\n").config;
  EXPECT_FALSE(config.lora);
  ASSERT_TRUE(config.dpo);
  EXPECT_EQ(config.dpo->loss_type, PreferenceLoss::kSigmoid);
  EXPECT_EQ(config.dpo->beta, 0.05);
  EXPECT_EQ(config.dpo->rpo_alpha, 0.2);
  EXPECT_EQ(config.training.learning_rate, 1e-6);
  EXPECT_FALSE(config.training.dropout);
  EXPECT_EQ(config.data.max_length, 1024);
  EXPECT_EQ(config.data.dialogue, Dialogue::kNone);
  EXPECT_TRUE(config.data.validation.path.ends_with("trl-lib/ultrafeedback_binarized"));
  EXPECT_EQ(rest(text), "lora_r max_prompt_length |");
  ASSERT_EQ(converted(text).undecided.size(), 1U) << "whether the replies are texts or turns";
}

TEST_F(Convert, TrlRecordsAreReadAsKeysTell) {
  const std::string file = "model_name_or_path: m\ndataset_name: d\n";
  const auto data = [&](const std::string& keys) { return resolve(yaml(file + keys) + "use_cpu: true\n").config.data; };
  EXPECT_EQ(data("chat_template_path: chat.jinja\n").learn, Learn::kAll) << "TRL learns all turns by default";
  EXPECT_EQ(data("completion_only_loss: true\n").target, "completion");
  EXPECT_EQ(data("dataset_text_field: body\n").source, "body");
  EXPECT_TRUE(data("dataset_text_field: body\npacking: true\npacking_strategy: wrapped\n").group_texts);
  EXPECT_EQ(data("packing: false\nmax_length: null\n").on_too_long, TooLong::kError);
  EXPECT_TRUE(converted(file + "dataset_text_field: body\n").undecided.empty());
  EXPECT_EQ(converted(file + "packing: false\n").undecided.size(), 1U);
}

TEST_F(Convert, TrlMixtureOfDatasets) {
  const std::string text =
      "model_name_or_path: m\ndataset_text_field: body\ntest_split_size: 0.1\ndatasets:\n"
      "  - {path: org/a, name: en, fraction: 0.5}\n  - {path: json, data_files: [b.jsonl, c.jsonl]}\n";
  const std::string job = yaml(text);
  EXPECT_NE(job.find("    path:\n    - org/a\n    - b.jsonl\n    - c.jsonl\n"), std::string::npos) << job;
  EXPECT_NE(job.find("    fraction: 0.1\n"), std::string::npos) << job;
  EXPECT_EQ(rest(text), "datasets[0].name datasets[0].fraction |");
}

TEST_F(Convert, TrlQuantizedAndInFp16) {
  const Config config = resolve(yaml(kTrlSft + "use_peft: true\nload_in_4bit: true\nuse_bnb_nested_quant: true\n"
                                               "lora_target_modules: [q_proj]\nfp16: true\n") +
                                "use_cpu: true\n")
                            .config;
  EXPECT_TRUE(config.model.quantization_config.load_in_4bit);
  EXPECT_EQ(config.model.quantization_config.bnb_4bit_quant_type, "nf4");
  EXPECT_TRUE(config.model.quantization_config.bnb_4bit_use_double_quant);
  EXPECT_EQ(config.lora->target_modules.names, std::vector<std::string>{"q_proj"});
  EXPECT_EQ(config.mixed_precision, MixedPrecision::kFp16);
  EXPECT_EQ(rest(kTrlSft + "dtype: bfloat16\nload_in_8bit: true\n"), "dtype load_in_8bit |");
}

TEST_F(Convert, TrlOnSeveralRanks) {
  const std::string job = yaml(kTrlDpo + "num_processes: 4\nchat_template: '{{ messages }}'\n");
  EXPECT_NE(job.find("distributed_type: MULTI_GPU\n"), std::string::npos) << job;
  EXPECT_NE(job.find("num_processes: 4\n"), std::string::npos) << job;
  EXPECT_NE(job.find("  dialogue: messages\n  chat_template: '{{ messages }}'\n"), std::string::npos) << job;
  const std::string zero = yaml(kTrlSft + "num_processes: 4\ndeepspeed: {zero_optimization: {stage: 2}}\n");
  EXPECT_NE(zero.find("num_processes: 4\n"), std::string::npos) << zero;
  EXPECT_EQ(zero.find("MULTI_GPU"), std::string::npos) << zero;
}

TEST_F(Convert, TrlRefusesOtherLosses) {
  const auto refusal = [&](const std::string& keys) { return failure(kTrlDpo + keys); };
  const auto contains = [](const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  contains(refusal("loss_type: [apo_zero]\n"), "loss_type: [apo_zero] is not supported: it can be sigmoid, robust");
  contains(refusal("loss_type: [sigmoid, sft]\nloss_weights: [0.5, 1]\n"), "write one loss with the weight 1");
  contains(refusal("loss_type: [sigmoid, sft]\nloss_weights: [1]\n"), "a number for each loss_type");
  contains(refusal("sync_ref_model: true\n"), "the reference is the model that the run starts from");
  contains(failure(kTrlSft + "loss_type: dft\n"), "loss_type: dft is not supported");
  EXPECT_EQ(rest(kTrlDpo + "label_smoothing: 0.1\n"), "label_smoothing |");
  EXPECT_EQ(resolve(yaml(kTrlDpo + "loss_type: [robust]\nlabel_smoothing: 0.1\n") + "use_cpu: true\n")
                .config.dpo->label_smoothing,
            0.1);
}

TEST_F(Convert, RefusesFilesThatCouldBeOfSeveralPrograms) {
  const std::string file = "model_name_or_path: m\n", trl = file + "dataset_name: d\n";
  EXPECT_EQ(
      failure(trl + "stage: sft\nbeta: 0.1\n"),
      "theirs.yaml: has keys of LLaMA-Factory (stage) and of TRL (dataset_name, beta); remove those of one of them, "
      "or name the program with --from: the keys of the other one are then listed as unknown");
  EXPECT_NE(failure(trl + "packing: true\nbeta: 0.1\n").find("SFTConfig (packing) and of its DPOConfig (beta)"),
            std::string::npos);
  EXPECT_NE(failure(trl).find("is TRL's, by dataset_name, but"), std::string::npos) << failure(trl);
  EXPECT_NE(failure(file).find("--from llamafactory, trl_sft or trl_dpo"), std::string::npos) << failure(file);
  EXPECT_NE(failure(trl + "num_generations: 4\n").find("another command of TRL"), std::string::npos);
  EXPECT_STREQ(converted(trl, "trl_dpo").dialect->name, "trl_dpo");
}

TEST_F(Convert, RefusesOtherFiles) {
  EXPECT_NE(failure("distributed_type: FSDP\nnum_processes: 2\n").find("none of the files"), std::string::npos);
  EXPECT_NE(failure("- a\n- b\n").find("key: value"), std::string::npos);
  EXPECT_NE(failure(kAxolotl, "axolot").find("did you mean 'axolotl'"), std::string::npos);
}

TEST_F(Convert, PageHasTheTables) {
  const std::string page = read_file(source_dir() + "/docs/converting.md");
  EXPECT_NE(page.find(conversion_tables()), std::string::npos)
      << "replace the tables at the end by the output of: trainer convert --keys";
}

}  // namespace
}  // namespace trainer::config
