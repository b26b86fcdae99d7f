// The wizard's own questions, and navigation through them.
#include "engine/config/wizard/wizard.h"

#include "engine/config/pages/file_text.h"
#include "engine/config/wizard/aim.h"
#include "tests/config/answers.h"
#include "tests/config/given.h"

namespace trainer::config {
namespace {

class Wizard : public Given {
 protected:
  Wizard() : around_(plain_surroundings()) { around_.here = around_.folder = folder_; }

  std::string run(Answers& answers) { return run(answers, draft_); }
  std::string run(Answers& answers, WizardDraft& draft) {
    ask_questions(draft, answers, around_);
    EXPECT_EQ(answers.unused(), "");
    return file_text(draft.document, FileFormat::kYaml);
  }

  Surroundings around_;
  WizardDraft draft_;
};

/// The part of the file that Accelerate doesn't read.
std::string ours(const std::string& text) {
  return text.substr(std::min(text.find(kSectionsComment), text.size()));
}

ModelDescription small_t5() {
  ModelDescription model;
  model.class_name = "T5ForConditionalGeneration";
  model.parameters = 12'345'678;
  model.blocks = {{"T5Block", 8}};
  model.lora_targets = {"q", "v"};
  model.linear_layers = {{"q", 12, 256, 128}, {"wi", 8, 1024, 256}};
  return model;
}

/// Describes every file as `data`, and refuses other formats.
void describe_as(const DataDescription& data, Surroundings& around) {
  around.describe_data = [data](const DataConfig& asked) {
    DataDescription found = data;
    if (asked.train.format != DataFormat::kAuto && name_of(asked.train.format) != data.format)
      found.error = "a.x:1: not " + name_of(asked.train.format);
    if (!asked.train.columns.empty()) found.columns = asked.train.columns, found.names.clear();
    return found;
  };
}

TEST_F(Wizard, WritesCompleteFile) {
  std::filesystem::create_directories(folder_ / "t5");
  write("t5/config.json", "{}");
  write("t5/spiece.model", "");
  write("a.txt", "");
  around_.describe_model = [this](const std::string& model, const std::string& task) {
    EXPECT_EQ(model, (folder_ / "t5").string());
    EXPECT_EQ(task, "seq2seq_lm");
    return small_t5();
  };
  Answers answers(Answers::Given{{"Which type of machine", {"multi-CPU"}},
                                 {"Do you want to use FullyShardedDataParallel?", {"yes"}},
                                 {"How many processes", {"2"}},
                                 {"Do you wish to use mixed precision?", {"bf16"}},
                                 {"Which model?", {"t5"}},
                                 {"Which file holds the training samples?", {"a.txt"}},
                                 {"In which format?", {"delimited"}},
                                 {"What are the names of the columns", {"sentence, label"}},
                                 {"Which fraction", {"0.1"}},
                                 {"Do you want to train LoRA adapters", {"yes"}},
                                 {"What should be lora_alpha?", {"32"}},
                                 {"How many samples", {"4"}},
                                 {"Which learning rate?", {"1e-3"}},
                                 {"Which folder should the results go to?", {"runs/a"}}});
  const std::string text = run(answers);
  EXPECT_EQ(ours(text),
            "# What to train, and how. Accelerate itself does not know these sections.\n"
            "output_dir: runs/a\n"
            "model:\n"
            "  path: t5\n"
            "data:\n"
            "  task: seq2seq_lm\n"
            "  train:\n"
            "    path:\n"
            "    - a.txt\n"
            "    format: delimited\n"
            "    delimiter: '@'\n"
            "    columns:\n"
            "    - sentence\n"
            "    - label\n"
            "  validation:\n"
            "    fraction: 0.1\n"
            "  source: sentence\n"
            "  target: label\n"
            "lora:\n"
            "  r: 8\n"
            "  lora_alpha: 32\n"
            "  lora_dropout: 0\n"
            "  target_modules:\n"
            "  - q\n"
            "  - v\n"
            "training:\n"
            "  per_device_train_batch_size: 4\n"
            "  num_train_epochs: 3\n"
            "  learning_rate: 0.001\n"
            "checkpoint:\n"
            "  save_steps: 500\n"
            "  save_total_limit: 0\n"
            "logging:\n"
            "  logging_steps: 10\n"
            "# This is the end of the file.\n");
  EXPECT_NE(text.find("  fsdp_transformer_layer_cls_to_wrap: T5Block\n"), std::string::npos) << text;
  EXPECT_EQ(answers.said,
            "  T5ForConditionalGeneration, 12.3 million parameters, 8 x T5Block\n"
            "  FSDP wraps T5Block.\n"
            "  Its linear layers: q 12 x [256, 128], wi 8 x [1024, 256]\n");
  const Plan plan = resolve(text);
  EXPECT_EQ(plan.config.lora->target_modules.names, (std::vector<std::string>{"q", "v"}));
  EXPECT_EQ(plan.config.mixed_precision, MixedPrecision::kBf16);
  EXPECT_EQ(plan.config.model.path, (folder_ / "t5").string());
  EXPECT_EQ(plan.config.num_processes, 2);
}

TEST_F(Wizard, AsksForVocabularySizeOfModelFromScratch) {
  Answers answers(Answers::Given{{"What do you want to do?", {"scratch"}},
                                 {"What should the new model learn?", {"answer"}},
                                 {"Where is its tokenizer?", {"tok", "tok"}},
                                 {"How large is its vocabulary?", {"many", "300"}},
                                 {"Which file holds the training samples?", {"a.csv", "a.csv"}}});
  const Plan plan = resolve(run(answers));
  EXPECT_NE(answers.said.find("Please enter an integer above 0; 'many' is not one."), std::string::npos)
      << answers.said;
  EXPECT_NE(plan.config.model.config.find(R"("model_type":"t5")"), std::string::npos);
  EXPECT_NE(plan.config.model.config.find(R"("vocab_size":300)"), std::string::npos);
  EXPECT_FALSE(plan.config.lora);
  EXPECT_EQ(answers.count("Do you want to train LoRA adapters"), 0) << "of random weights";
}

TEST_F(Wizard, ImagesNeedNeitherPretrainedModelNorTokenizer) {
  write("digits", "");
  describe_as({.format = "mnist", .features = 64, .classes = 4}, around_);
  Answers answers(Answers::Given{{"What do you want to do?", {"images"}}, {"Which file holds", {"digits"}}});
  const std::string text = run(answers);
  std::vector<std::string> asked;
  for (const Question& question : answers.asked) asked.push_back(question.text);
  const auto aim = std::find(asked.begin(), asked.end(), "What do you want to do?");
  ASSERT_LT(aim + 3, asked.end());
  EXPECT_EQ(aim[1], "How large should it be?");
  EXPECT_EQ(aim[2], "Which file holds the training samples?");
  for (const char* const question : {"Which model?", "Where is its tokenizer?", "Do you want to train LoRA adapters"})
    EXPECT_EQ(answers.count(question), 0) << question;
  EXPECT_NE(text.find("    input_size: 64\n"), std::string::npos) << text;
  EXPECT_NE(text.find("    num_labels: 4\n"), std::string::npos) << text;
  Answers again(Answers::Given{});
  run(again, draft_);
  EXPECT_EQ(again.last("What do you want to do?").current, "images: train a new model on the classes of images");
}

TEST_F(Wizard, OffersOnlySizesThatFitTheMachine) {
  std::vector<std::string> described;
  around_.describe_model = [&](const std::string& config, const std::string&) {
    described.push_back(config);
    ModelDescription model = small_t5();
    model.tasks = {"causal_lm"};
    model.parameters = config.find(R"("hidden_size":2048)") != std::string::npos  ? 1'100'000'000
                       : config.find(R"("hidden_size":768)") != std::string::npos ? 110'000'000
                                                                                  : 5'000'000;
    return model;
  };
  around_.describe_tokenizer = [](const std::string&) { return TokenizerDescription{.size = 500}; };
  const Answers::Given given{{"What do you want to do?", {"scratch"}},
                             {"What should the new model learn?", {"continue"}},
                             {"Where is its tokenizer?", {"tok", "tok"}},
                             {"Which file holds", {"a.csv", "a.csv"}}};
  const WizardDraft start = draft_;
  Answers answers(given);
  const std::string text = run(answers);
  const Question& sizes = answers.last("How large should it be?");
  ASSERT_EQ(sizes.choices.size(), 4u) << "1.1 billion parameters take 17.6 GB of the 16 GiB";
  EXPECT_EQ(sizes.choices.back(), "base: 110M parameters, 1.6 GiB to train");
  EXPECT_TRUE(sizes.current.starts_with("small: ")) << sizes.current;
  EXPECT_NE(described.front().find(R"("vocab_size":500)"), std::string::npos) << described.front();
  EXPECT_NE(text.find("    hidden_size: 256\n"), std::string::npos) << text;
  EXPECT_NE(text.find("  task: causal_lm\n"), std::string::npos) << text;
  EXPECT_NE(text.find("  learning_rate: 0.0005\n  warmup_steps: 0.1\n"), std::string::npos) << text;
  around_.machine.memory_bytes = int64_t{64} << 30;
  draft_ = start;
  Answers larger(given);
  run(larger);
  EXPECT_EQ(larger.last("How large should it be?").choices.size(), 5u);
}

TEST_F(Wizard, EveryQuestionHasHelp) {
  Answers answers(Answers::Given{{"Which type of machine", {"multi-CPU"}},
                                 {"Do you want to use FullyShardedDataParallel?", {"yes"}},
                                 {"What do you want to do?", {"?", ""}},
                                 {"Which model?", {"m", "m"}},
                                 {"Which file holds", {"a.csv", "?", "a.csv"}},
                                 {"Do you want to train LoRA adapters", {"yes"}}});
  run(answers);
  EXPECT_GT(answers.asked.size(), 30u);
  for (const Question& question : answers.asked) EXPECT_NE(question.help, "") << question.text;
  for (const char* const told :
       {"  preferences: each record has two replies, of which one is better (DPO).",
        "  A file, a folder, a glob, a dataset in the Hugging Face Hub's cache, or a list of them.",
        "  In the file: data.train.path"})
    EXPECT_NE(answers.said.find(told), std::string::npos) << told << " in\n" << answers.said;
}

TEST_F(Wizard, DecoderAnswersAfterLineBreak) {
  std::filesystem::create_directories(folder_ / "m");
  write("m/config.json", "{}");
  write("m/vocab.json", "");
  write("a.csv", "");
  around_.describe_model = [](const std::string&, const std::string&) {
    ModelDescription model = small_t5();
    model.family = "gpt2";
    model.tasks = {"causal_lm", "sequence_classification"};
    return model;
  };
  describe_as({.format = "csv", .columns = {"question", "answer"}}, around_);
  Config shown;
  around_.describe_samples = [&](const Config& config) {
    shown = config;
    return SamplesDescription{.texts = {"6 tokens, 2 learned: Why?↵⟦So.⟧"}};
  };
  Answers answers(Answers::Given{{"Which model?", {"m"}}, {"Which file holds", {"a.csv"}}});
  const std::string text = run(answers);
  EXPECT_NE(text.find("  source: \"{question}\\n\"\n  target: answer\n"), std::string::npos) << text;
  EXPECT_NE(text.find("  task: causal_lm\n"), std::string::npos) << text;
  EXPECT_NE(answers.said.find("it learns what is in ⟦ ⟧:\n  6 tokens, 2 learned: Why?↵⟦So.⟧\n"), std::string::npos)
      << answers.said;
  EXPECT_EQ(shown.data.train.path, std::vector<std::string>{(folder_ / "a.csv").string()});
  EXPECT_EQ(answers.count("In which format?") + answers.count("What are the names of the columns"), 0);
  EXPECT_EQ(resolve(text).config.data.source, "{question}\n");
}

TEST_F(Wizard, PreferencesGetTheirSectionAndColumns) {
  std::filesystem::create_directories(folder_ / "m");
  write("m/config.json", "{}");
  write("m/vocab.json", "");
  write("a.jsonl", "");
  around_.describe_model = [](const std::string&, const std::string&) {
    ModelDescription model = small_t5();
    model.family = "llama";
    model.tasks = {"causal_lm"};
    return model;
  };
  describe_as({.format = "jsonl", .columns = {"question", "good", "rejected"}}, around_);
  Answers answers(Answers::Given{{"What do you want to do?", {"preferences"}},
                                 {"Which model?", {"m"}},
                                 {"Which file holds", {"a.jsonl"}},
                                 {"Which column is the better reply?", {"good"}}});
  const std::string text = run(answers);
  EXPECT_NE(text.find("  source: question\n  target: good\n  rejected: rejected\n"), std::string::npos) << text;
  EXPECT_NE(text.find("  dialogue: prompt\n"), std::string::npos) << text;
  EXPECT_NE(text.find("dpo:\n  beta: 0.1\n"), std::string::npos) << text;
  EXPECT_EQ(answers.count("Which column is the worse reply?"), 0);
  const Config config = resolve(text).config;
  EXPECT_TRUE(config.dpo);
  EXPECT_EQ(config.data.task, Task::kCausalLm);
  Answers others(Answers::Given{{"What do you want to do?", {"continue"}}});
  EXPECT_EQ(run(others, draft_).find("dpo"), std::string::npos);
}

TEST_F(Wizard, RefusesAnswersThatGiveNoSamples) {
  write("a.csv", "");
  describe_as({.format = "csv", .columns = {"a", "b", "c"}}, around_);
  around_.describe_samples = [](const Config& config) {
    return config.data.target == "b" ? SamplesDescription{.error = "a.csv:2: column 'b' is empty"}
                                     : SamplesDescription{.texts = {"x"}};
  };
  Answers answers(Answers::Given{{"Which model?", {"m", "m"}},
                                 {"Which file holds", {"a.csv"}},
                                 {"Which column should be predicted?", {"b", "c"}}});
  run(answers);
  EXPECT_NE(answers.said.find("  a.csv:2: column 'b' is empty\n"), std::string::npos) << answers.said;
  EXPECT_EQ(draft_.config.data.target, "c");
}

TEST_F(Wizard, OffersAdaptersWhenWeightsDoNotFit) {
  std::filesystem::create_directories(folder_ / "m");
  write("m/config.json", "{}");
  write("m/spiece.model", "");
  int64_t parameters = 7'000'000'000;
  around_.describe_model = [&](const std::string&, const std::string&) {
    ModelDescription model = small_t5();
    model.parameters = parameters;
    return model;
  };
  const Answers::Given given{{"Which model?", {"m"}}, {"Which file holds", {"*.txt"}}};
  const WizardDraft start = draft_;
  Answers large(given);
  EXPECT_NE(run(large).find("  learning_rate: 0.0002\n"), std::string::npos);
  EXPECT_EQ(large.last("Do you want to train LoRA adapters").current, "yes");
  EXPECT_NE(large.said.find("  Training all its weights takes 104 GiB and activations"), std::string::npos)
      << large.said;
  parameters = 60'000'000;
  draft_ = start;
  Answers small(given);
  EXPECT_EQ(run(small).find("lora"), std::string::npos);
}

TEST_F(Wizard, RepeatsQuestionAfterInvalidAnswer) {
  Answers answers(Answers::Given{{"Which type of machine", {"multi-TPU", "multi-cpu"}},
                                 {"Should distributed operations", {"maybe", "no"}},
                                 {"Do you want to use FullyShardedDataParallel?", {"y"}},
                                 {"What should be your sharding strategy?", {"FULL", "full_shard"}},
                                 {"How many processes", {"0", "two", "3"}},
                                 {"Do you wish to use mixed precision?", {"fp8", "no"}},
                                 {"Which model?", {"m", "m"}},
                                 {"Which file holds the training samples?", {"*.txt"}},
                                 {"Which learning rate?", {"-1"}}});
  run(answers);
  for (const char* const told :
       {"  Please choose one of the options; 'multi-TPU' is not one of them.\n", "  Please enter yes or no.\n",
        "  fsdp_sharding_strategy must be one of FULL_SHARD, SHARD_GRAD_OP, NO_SHARD, HYBRID_SHARD, "
        "HYBRID_SHARD_ZERO2; is 'FULL'",
        "  mixed_precision fp8 is not supported", "  num_processes must be at least 1; is 0\n",
        "  num_processes must be an integer; is 'two'\n", "  learning_rate must be at least 0; is -1\n"}) {
    EXPECT_NE(answers.said.find(told), std::string::npos) << told << "in\n" << answers.said;
  }
  EXPECT_EQ(draft_.config.num_processes, 3);
  EXPECT_EQ(draft_.config.training.learning_rate, 5e-5);
}

TEST_F(Wizard, NumbersAreShownAsTheyAreTyped) {
  const Answers::Given given{{"Which model?", {"m", "m"}}, {"Which file holds", {"a.csv", "a.csv"}}};
  Answers defaults(given);
  const std::string text = run(defaults);
  EXPECT_EQ(defaults.last("Which learning rate?").current, "5e-05");
  EXPECT_NE(text.find("learning_rate: 5.0e-05\n"), std::string::npos) << "a number for every YAML reader:\n" << text;
  EXPECT_EQ(resolve(text).config.training.learning_rate, 5e-5);
  for (const auto& [typed, written] : {std::pair{"5e-05", "5.0e-05"}, {"1e-4", "0.0001"}, {"3E-7", "3.0e-07"}}) {
    Answers answers(Answers::Given{{"Which learning rate?", {typed}}});
    EXPECT_NE(run(answers).find(fmt::format("learning_rate: {}\n", written)), std::string::npos) << typed;
    EXPECT_EQ(answers.count("Which learning rate?"), 1) << typed;
  }
}

TEST_F(Wizard, GoingBackOffersPreviousAnswer) {
  Answers answers(Answers::Given{{"Which type of machine", {"<", "multi-CPU", ""}},
                                 {"How many different machines", {"", "<", ""}},
                                 {"Should distributed operations", {"yes", "<", ""}},
                                 {"Do you want to use FullyShardedDataParallel?", {"<"}}});
  run(answers);
  EXPECT_NE(answers.said.find("This is the first question"), std::string::npos);
  EXPECT_EQ(answers.count("Which type of machine"), 3);
  EXPECT_EQ(answers.last("Which type of machine").current, "multi-CPU");
  EXPECT_EQ(answers.last("Should distributed operations").current, "yes");
  EXPECT_EQ(draft_.config.distributed_type, DistributedType::kMultiCpu);
  EXPECT_TRUE(draft_.config.debug);
}

TEST_F(Wizard, GoingBackDiscardsLaterAnswers) {
  Answers answers(Answers::Given{{"Which type of machine", {"multi-CPU", "No distributed training"}},
                                 {"How many different machines", {"2", "<"}},
                                 {"What is the rank of this machine?", {"<"}},
                                 {"Do you want to run your training on CPU only", {"yes"}}});
  const std::string text = run(answers);
  EXPECT_NE(text.find("distributed_type: 'NO'\n"), std::string::npos) << text;
  EXPECT_NE(text.find("debug: false\n"), std::string::npos) << text;
  EXPECT_NE(text.find("num_machines: 1\n"), std::string::npos) << text;
}

TEST_F(Wizard, SeveralMachinesNeedRanksAndEqualNumbersOfProcesses) {
  Answers answers(Answers::Given{{"Which type of machine", {"multi-CPU"}},
                                 {"How many different machines", {"0", "2"}},
                                 {"What is the rank of this machine?", {"2", "1"}},
                                 {"What is the IP address", {"10.0.0.1"}},
                                 {"How many processes", {"3", "6"}}});
  const std::string text = run(answers);
  EXPECT_EQ(answers.unused(), "");
  for (const char* const told : {"num_machines must be at least 1; is 0", "machines are numbered from 0",
                                 "it counts the processes of all 2 machines"})
    EXPECT_NE(answers.said.find(told), std::string::npos) << told << " in\n" << answers.said;
  for (const char* const line : {"num_machines: 2\n", "machine_rank: 1\n", "main_process_ip: 10.0.0.1\n",
                                 "main_process_port: 29500\n", "num_processes: 6\n"})
    EXPECT_NE(text.find(line), std::string::npos) << line << " in\n" << text;
}

TEST_F(Wizard, OneMachineRemovesRendezvousAddress) {
  Answers two(Answers::Given{{"Which type of machine", {"multi-CPU"}},
                             {"How many different machines", {"2"}},
                             {"What is the IP address", {"10.0.0.1"}}});
  EXPECT_NE(run(two).find("main_process_ip"), std::string::npos);
  Answers one(Answers::Given{{"How many different machines", {"1"}}});
  EXPECT_EQ(run(one).find("main_process_ip"), std::string::npos);
}

TEST_F(Wizard, EndOfInputKeepsRemainingValues) {
  Answers answers(Answers::Given{{"Which type of machine", {"multi-CPU"}}, {"How many processes", {"^D"}}});
  const std::string text = run(answers);
  EXPECT_EQ(answers.asked.back().text, "How many processes should be used for distributed training?");
  EXPECT_NE(text.find("num_processes: 4\n"), std::string::npos) << text;
  EXPECT_NE(text.find("learning_rate: 5.0e-05\n"), std::string::npos) << text;
}

TEST_F(Wizard, AcceptsMissingPathsOnlyWhenRepeated) {
  write("b.txt", "");
  Answers answers(Answers::Given{{"Which model?", {"gone/too/far", "gone/too/far"}},
                                 {"Which file holds the training samples?", {"a.txt,*.csv", "<", "b.txt"}}});
  run(answers);
  const std::string folder = "  " + folder_.string(),
                    again = " does not exist.\n  Type it again to keep it for another machine.\n",
                    elsewhere = folder + "/gone/too/far does not exist on this machine.\n";
  EXPECT_EQ(answers.said, folder + "/gone/too/far" + again + elsewhere + folder + "/a.txt" + again + elsewhere);
  EXPECT_EQ(draft_.config.model.path, "gone/too/far");
  EXPECT_EQ(draft_.config.data.train.path, std::vector<std::string>{"b.txt"});
}

TEST_F(Wizard, TypedPathsAreRelativeToWorkingFolder) {
  around_.here = "/home/user";
  Answers answers(Answers::Given{
      {"Which model?", {"./m/", "./m/"}},
      {"Which file holds the training samples?", {"/data/a.txt,'b.txt',~/c.txt", "/data/a.txt,'b.txt',~/c.txt"}}});
  run(answers);
  EXPECT_EQ(draft_.config.model.path, "/home/user/m");
  EXPECT_EQ(draft_.config.data.train.path, (std::vector<std::string>{"/data/a.txt", "/home/user/b.txt", "~/c.txt"}));
}

TEST_F(Wizard, PreservesHubNames) {
  setenv("HF_HUB_CACHE", (folder_ / "hub").c_str(), 1);
  const auto model = folder_ / "hub/models--somebody--tiny";
  std::filesystem::create_directories(model / "snapshots/1a2b");
  std::filesystem::create_directories(model / "refs");
  write("hub/models--somebody--tiny/refs/main", "1a2b\n");
  write("hub/models--somebody--tiny/snapshots/1a2b/config.json", "{}");
  write("hub/models--somebody--tiny/snapshots/1a2b/tokenizer.json", "{}");
  around_.here = "/home/user";
  std::string described;
  around_.describe_model = [&](const std::string& folder, const std::string&) {
    described = folder;
    return small_t5();
  };
  Answers answers(Answers::Given{{"Which model?", {"somebody/other", "somebody/tiny"}}});
  run(answers);
  unsetenv("HF_HUB_CACHE");
  EXPECT_EQ(draft_.config.model.path, "somebody/tiny");
  EXPECT_EQ(described, (model / "snapshots/1a2b").string());
  EXPECT_NE(answers.said.find("`hf download somebody/other`"), std::string::npos) << answers.said;
  EXPECT_EQ(answers.count("Where is its tokenizer?"), 0);
}

TEST_F(Wizard, RefusesEmptyPaths) {
  std::filesystem::create_directories(folder_ / "m");
  write("m/config.json", "{}");
  write("m/vocab.txt", "");
  write("a.txt", "");
  Answers answers(Answers::Given{{"Which model?", {"", "m"}}, {"Which file holds", {"", "a.txt"}}});
  run(answers);
  EXPECT_EQ(answers.said,
            "  A model is required: enter its folder, or type < to go back, where `scratch` builds a new one.\n"
            "  Samples are required: enter a file, a "
            "folder or a glob.\n");
}

TEST_F(Wizard, AcceptsOnlyModelsForTheTask) {
  for (const char* const name : {"llama", "mamba"}) {
    std::filesystem::create_directories(folder_ / name);
    write(std::string(name) + "/config.json", "{}");
    write(std::string(name) + "/tokenizer.model", "");
  }
  around_.describe_model = [](const std::string& folder, const std::string&) {
    ModelDescription model = small_t5();
    model.family = "llama";
    model.tasks = {"causal_lm"};
    model.positions = 512;
    if (folder.ends_with("mamba")) model.error = "model_type is 'mamba', which this version does not train.";
    return model;
  };
  Answers answers(Answers::Given{{"What do you want to do?", {"classify", "continue"}},
                                 {"Which model?", {"mamba", "llama", "<", "llama"}}});
  const std::string text = run(answers);
  EXPECT_NE(answers.said.find("  model_type is 'mamba', which this version does not train.\n"), std::string::npos);
  EXPECT_NE(answers.said.find("  This is a model of type llama, which this version trains for causal_lm; `classify` "
                              "needs one for sequence_classification.\n"),
            std::string::npos)
      << answers.said;
  for (const char* const line : {"  task: causal_lm\n", "  source: text\n", "  max_length: 512\n"})
    EXPECT_NE(text.find(line), std::string::npos) << line << "in\n" << text;
  EXPECT_EQ(text.find("target"), std::string::npos) << "only the text itself is predicted:\n" << text;
}

TEST_F(Wizard, NothingYetWritesOnlyAcceleratesPart) {
  Answers answers(Answers::Given{{"What do you want to do?", {"nothing yet"}}});
  EXPECT_EQ(ours(run(answers)), "");
}

TEST_F(Wizard, RecognizesFormatAndColumns) {
  write("a.x", "");
  describe_as({.format = "delimited",
               .by_ending = false,
               .delimiter = "|",
               .encoding = "latin-1",
               .columns = {"source", "target"}},
              around_);
  Answers answers(Answers::Given{{"What do you want to do?", {"classify"}},
                                 {"Which model?", {"m", "m"}},
                                 {"Which file holds", {"a.x"}},
                                 {"In which format?", {"auto", "csv", ""}},
                                 {"Which column is the input?", {"txt", ""}}});
  const std::string text = run(answers);
  for (const char* const told :
       {"  Format: delimited by '|', columns: source, target.\n",
        "auto needs a known file extension; these files look like delimited.", "  a.x:1: not csv\n",
        "There is no column 'txt' (did you mean 'text'?); the columns are: text, label."})
    EXPECT_NE(answers.said.find(told), std::string::npos) << told << " in\n" << answers.said;
  for (const char* const line : {"    format: delimited\n", "    delimiter: '|'\n", "    encoding: latin-1\n",
                                 "  source: text\n", "  target: label\n"})
    EXPECT_NE(text.find(line), std::string::npos) << line << "in\n" << text;
  const auto& formats = answers.last("In which format?").choices;
  EXPECT_EQ(formats, (std::vector<std::string>{"auto", "delimited", "csv", "tsv", "json", "jsonl"}));
}

TEST_F(Wizard, RefusesPlainLinesForPairs) {
  write("a.txt", "");
  describe_as({.format = "text", .delimiter = "@", .columns = {"text"}}, around_);
  Answers answers(Answers::Given{
      {"Which model?", {"m", "m"}}, {"Which file holds", {"a.txt"}}, {"In which format?", {"auto", "delimited"}}});
  run(answers);
  EXPECT_NE(answers.said.find("  Plain lines have one column; `answer` needs a second one"), std::string::npos)
      << answers.said;
  EXPECT_NE(answers.said.find("  a.x:1: not delimited\n"), std::string::npos) << "the delimiter is not in it";
}

TEST_F(Wizard, RefusesLabelsThatClassifierDoesNotHave) {
  std::filesystem::create_directories(folder_ / "m");
  write("m/config.json", "{}");
  write("m/vocab.txt", "");
  write("a.csv", "");
  around_.describe_model = [](const std::string&, const std::string&) {
    ModelDescription model = small_t5();
    model.labels = {"good", "poor"};
    return model;
  };
  around_.describe_data = [](const DataConfig& data) {
    DataDescription found{.format = "csv", .columns = {"text", "label", "mood"}};
    found.labels = data.target == "label" ? std::vector<std::string>{"1"} : std::vector<std::string>{"good"};
    return found;
  };
  Answers answers(Answers::Given{{"What do you want to do?", {"classify"}},
                                 {"Which model?", {"m"}},
                                 {"Which file holds", {"a.csv"}},
                                 {"Which column should be predicted?", {"", "mood"}}});
  run(answers);
  EXPECT_NE(answers.said.find("  The model's classes are good, poor; '1' is not one of them."), std::string::npos)
      << answers.said;
  EXPECT_EQ(draft_.config.data.target, "mood");
}

TEST_F(Wizard, AsksForChatTemplateIfTokenizerHasNone) {
  std::filesystem::create_directories(folder_ / "m");
  write("m/config.json", "{}");
  write("a.x", "");
  describe_as({.format = "jsonl", .columns = {"chat"}, .dialogue = "messages", .messages = "chat"}, around_);
  TokenizerDescription tokenizer{.size = 300, .templates = {"alpaca", "chatml"}};
  around_.describe_tokenizer = [&](const std::string&) { return tokenizer; };
  const Answers::Given given{
      {"What do you want to do?", {"dialogue"}}, {"Which model?", {"m"}}, {"Which file holds", {"a.x"}}};
  const WizardDraft start = draft_;
  Answers without(given);
  std::string text = run(without);
  for (const char* const line : {"  dialogue: messages\n", "  messages: chat\n", "  chat_template: chatml\n"})
    EXPECT_NE(text.find(line), std::string::npos) << line << "in\n" << text;
  EXPECT_EQ(text.find("  source:"), std::string::npos) << text;
  tokenizer.chat_template = true;
  draft_ = start;
  Answers with(given);
  text = run(with);
  EXPECT_EQ(with.count("Which chat template?"), 0);
  EXPECT_EQ(text.find("chat_template"), std::string::npos) << text;
}

TEST_F(Wizard, EachReplyIsASampleIfTheTemplateChangesEarlierOnes) {
  std::filesystem::create_directories(folder_ / "m");
  write("m/config.json", "{}");
  write("a.x", "");
  describe_as({.format = "jsonl", .columns = {"messages"}, .dialogue = "messages"}, around_);
  around_.describe_tokenizer = [](const std::string&) {
    return TokenizerDescription{.size = 300, .chat_template = true};
  };
  bool changes = true;
  around_.describe_samples = [&](const Config& config) {
    const bool fails = changes && config.data.learn == Learn::kAssistant;
    return SamplesDescription{.error = fails ? "renders turn 2 differently" : "", .texts = {}};
  };
  const Answers::Given given{
      {"What do you want to do?", {"dialogue"}}, {"Which model?", {"m"}}, {"Which file holds", {"a.x"}}};
  const WizardDraft start = draft_;
  Answers each(given);
  EXPECT_NE(run(each).find("  learn: each_turn\n"), std::string::npos);
  EXPECT_NE(each.said.find("are a sample"), std::string::npos) << each.said;
  changes = false;
  draft_ = start;
  Answers all(given);
  EXPECT_EQ(run(all).find("learn: "), std::string::npos);
}

TEST_F(Wizard, ADialogueInTheAnswersIsTheAim) {
  draft_ = read_draft(write("old.yaml", "data: {dialogue: messages}\n"));
  EXPECT_EQ(aim_of(draft_).goal, Goal::kDialogue);
}

TEST_F(Wizard, NewFileResetsFormatAndColumns) {
  write("a.csv", "");
  write("b.jsonl", "");
  std::filesystem::create_directories(folder_ / "m");
  write("m/config.json", "{}");
  write("m/spiece.model", "");
  draft_ =
      read_draft(write("old.yaml",
                       "distributed_type: NO\nuse_cpu: true\nmodel: {path: m}\ndata: {train: {path: a.csv, format: "
                       "csv, columns: [a, b]}, source: a, target: b}\n"));
  describe_as({.format = "jsonl", .columns = {"document", "summary"}}, around_);
  Answers answers(Answers::Given{{"Which file holds", {"b.jsonl"}}});
  const std::string text = run(answers);
  EXPECT_EQ(text.find("csv"), std::string::npos) << text;
  EXPECT_NE(text.find("  source: document\n  target: summary\n"), std::string::npos) << text;
}

TEST_F(Wizard, FsdpWrapsOnlyClassesOfTheModel) {
  std::filesystem::create_directories(folder_ / "m");
  write("m/config.json", "{}");
  write("m/spiece.model", "");
  around_.describe_model = [](const std::string&, const std::string&) {
    ModelDescription model = small_t5();
    model.classes = {"T5Block", "T5LayerFF"};
    return model;
  };
  const char* const layers = "Specify the comma-separated list of transformer layer class names";
  Answers answers(Answers::Given{{"Which type of machine", {"multi-CPU"}},
                                 {"Do you want to use FullyShardedDataParallel?", {"yes"}},
                                 {layers, {"BertLayer", "T5Stack", ""}},
                                 {"Which model?", {"m"}}});
  run(answers);
  EXPECT_NE(
      answers.said.find("  FSDP should wrap BertLayer, but the model has no such class; its blocks are T5Block.\n"),
      std::string::npos)
      << answers.said;
  EXPECT_EQ(draft_.config.fsdp_config.transformer_layer_cls_to_wrap, std::vector<std::string>{"T5Block"});
}

TEST_F(Wizard, RefusesAdapterLayersThatModelDoesNotHave) {
  std::filesystem::create_directories(folder_ / "m");
  write("m/config.json", "{}");
  write("m/spiece.model", "");
  around_.describe_model = [](const std::string&, const std::string&) {
    ModelDescription model = small_t5();
    model.adaptable = {"q", "v", "wi"};
    return model;
  };
  Answers answers(Answers::Given{{"Which model?", {"m"}},
                                 {"Which file holds", {"*.txt"}},
                                 {"Do you want to train LoRA adapters", {"y"}},
                                 {"Which layers get an adapter", {"q_proj", "all-linear"}}});
  run(answers);
  EXPECT_NE(answers.said.find("  The model has no layer 'q_proj'; adapters are possible for q, v, wi.\n"),
            std::string::npos)
      << answers.said;
  EXPECT_EQ(draft_.config.lora->target_modules.pattern, "all-linear");
}

TEST_F(Wizard, OffersFolderThatNoRunHasAndRefusesModelsOwn) {
  std::filesystem::create_directories(folder_ / "trainer_output");
  for (const char* const file : {"config.json", "spiece.model", "metrics.jsonl"})
    write(std::string("trainer_output/") + file, "{}");
  write("a.csv", "");
  Answers answers(Answers::Given{{"Which model?", {"trainer_output"}},
                                 {"Which file holds the training samples?", {"a.csv"}},
                                 {"Which folder should the results go to?", {"trainer_output", ""}}});
  const std::string text = run(answers);
  EXPECT_NE(text.find("output_dir: trainer_output_2\n"), std::string::npos) << text;
  EXPECT_NE(answers.said.find("This is the model's folder"), std::string::npos) << answers.said;
}

TEST_F(Wizard, GivesOneProcessOnCpuMachinesCores) {
  around_.machine.cores = 8;
  write("a.csv", "");
  const Answers::Given given{{"Do you want to run your training on CPU", {"yes"}},
                             {"Which model?", {"t5", "t5"}},
                             {"Which file holds the training samples?", {"a.csv"}}};
  Answers answers(given);
  EXPECT_NE(run(answers).find("num_cpu_threads_per_process: 8\n"), std::string::npos);
  WizardDraft kept = read_draft(write("old.yaml", "use_cpu: true\nnum_cpu_threads_per_process: 3\n"));
  Answers again(given);
  EXPECT_NE(run(again, kept).find("num_cpu_threads_per_process: 3\n"), std::string::npos);
}

TEST_F(Wizard, AsksWhichCharacterOfPlayIsLearned) {
  write("play.txt", "");
  describe_as({.format = "text", .by_ending = true, .columns = {"text"}}, around_);
  Answers answers(Answers::Given{{"What do you want to do?", {"dialogue"}},
                                 {"Which model?", {"llama", "llama"}},
                                 {"Which file holds the training samples?", {"play.txt"}},
                                 {"Which character's lines should be learned?", {"HAMLET"}}});
  const std::string text = run(answers);
  EXPECT_NE(text.find("  dialogue: play\n"), std::string::npos) << text;
  EXPECT_NE(text.find("  character: HAMLET\n"), std::string::npos) << text;
}

TEST_F(Wizard, ChangingStrategyRemovesKeysOfOldOne) {
  const std::string file = write("old.yaml",
                                 "distributed_type: FSDP\nnum_processes: 2\nuse_cpu: true\n"
                                 "fsdp_config: {fsdp_version: 1, fsdp_use_orig_params: false}\n" +
                                     std::string("parallelism_config: {parallelism_config_dp_shard_size: 2}\n"));
  WizardDraft kept = read_draft(file), left = read_draft(file);
  Answers nothing({});
  EXPECT_NE(run(nothing, kept).find("  fsdp_use_orig_params: false\n"), std::string::npos);
  EXPECT_EQ(nothing.last("What should be your FSDP version?").current, "1");
  EXPECT_EQ(nothing.last("Do you want to use the model's `_no_split_modules`").current, "yes");
  Answers no(Answers::Given{{"Do you want to use FullyShardedDataParallel?", {"no"}}});
  const std::string text = run(no, left);
  EXPECT_EQ(text.find("fsdp"), std::string::npos) << text;
  EXPECT_EQ(text.find("parallelism"), std::string::npos) << text;
  EXPECT_NE(text.find("distributed_type: MULTI_CPU\n"), std::string::npos) << text;
}

}  // namespace
}  // namespace trainer::config
