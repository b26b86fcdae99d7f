// `trainer config` on a pipe, and its subcommands that ask nothing.
#include "tests/cli/program.h"

namespace trainer {
namespace {

using ConfigCommand = Program;

/// Answers for FSDP on two CPUs, T5 and a delimited file; `rest` answers what comes after the questions.
std::string answers(const std::string& rest) {
  return "2\n\n\nyes\n1\n\n\n1\n\n\n\n\n\n2\n\n1\nm\n1\na.txt\n2\n@\nsentence, "
         "label\n\n\n0.2\nmaybe\nyes\n\n\n\n\n\n\n\n\n\n\n" +
         rest;
}

TEST_F(ConfigCommand, AsksOnAPipe) {
  write("m/config.json", "{}");
  write("m/spiece.model", "");
  write("a.txt", "");
  const Outcome outcome = run("config --config_file sub/new.yaml", answers("\n"));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("This machine has "), std::string::npos);
  EXPECT_NE(outcome.out.find("  Please enter yes or no.\n"), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("configuration saved at sub/new.yaml\n"), std::string::npos) << outcome.out;
  EXPECT_TRUE(outcome.out.ends_with("run it with: trainer launch --config_file sub/new.yaml\n")) << outcome.out;
  const Outcome explained = run("explain --config_file sub/new.yaml");
  EXPECT_EQ(explained.code, 0) << explained.err;
  for (const std::string& line :
       {std::string("distributed_type: FSDP"), std::string("num_processes: 2"), std::string("    format: delimited"),
        std::string("    fraction: 0.2"), std::string("  r: 8"), "  path: " + (folder_ / "m").string() + "  #"}) {
    EXPECT_NE(explained.out.find(line), std::string::npos) << line << "in\n" << explained.out;
  }
}

const char* const kDescription =
    R"({"class":"T5","parameters":1000000,"blocks":{"T5Block":2},"lora_targets":["q","v"],)"
    R"("linear_layers":[{"name":"q","count":2,"shape":[8,8]}]})";

TEST_F(ConfigCommand, AsksTheWorkerAboutTheModelAndChecks) {
  write("m/config.json", "{}");
  write("m/spiece.model", "");
  write("a.txt", "");
  write_worker(
      fmt::format("case $1 in\n describe-model) echo '{}';;\n check) echo '{{\"text\":\"checked\",\"updates\":9}}';;\n"
                  " *) exit 5;;\nesac\n",
                  kDescription));
  const Outcome outcome = run("config --config_file new.yaml", answers("\n"));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  for (const char* const line : {"  T5, 1.0 million parameters, 2 x T5Block\n", "  FSDP wraps T5Block.\n",
                                 "  Its linear layers: q 2 x [8, 8]\n", "(empty: the defaults) [q,v]: ", "\nchecked",
                                 "Do you want to try it out? (measures its speed, saves nothing) [yes/NO]: "}) {
    EXPECT_NE(outcome.out.find(line), std::string::npos) << line << "in\n" << outcome.out;
  }
  EXPECT_EQ(outcome.out.find("The trial"), std::string::npos);
  EXPECT_NE(read_all(folder_ / "new.yaml").find("fsdp_transformer_layer_cls_to_wrap: T5Block\n"), std::string::npos);
}

TEST_F(ConfigCommand, TriesItOut) {
  const std::string seen = (folder_ / "seen").string();
  write_worker(
      "case $1 in\n check) echo '{\"text\":\"\",\"updates\":9}';;\n rank) cat /proc/self/fd/$TRAINER_PLAN_FD >> " +
      seen + " 2> /dev/null; echo \"rank $RANK\" >> " + seen + "; exit 5;;\n *) exit 3;;\nesac\n");
  write("old.yaml", "distributed_type: NO\nuse_cpu: true\nmodel: {path: m}\ndata: {train: {path: a.txt}}\n");
  write("m/config.json", "{}");
  write("m/spiece.model", "");
  write("a.txt", "");
  std::string input;
  for (int i = 0; i < 21; ++i) input += "\n";
  const Outcome outcome = run("config --config_file old.yaml", input + "yes\n");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("The trial failed.\n"), std::string::npos) << outcome.out;
  EXPECT_NE(read_all(seen).find("rank 0"), std::string::npos);
  for (const auto& entry : fs::directory_iterator(fs::temp_directory_path()))
    EXPECT_FALSE(entry.path().filename().string().starts_with("trainer-trial-")) << entry.path();
}

TEST_F(ConfigCommand, AsksNothingWithYesOrAnswers) {
  Outcome outcome = run("config --yes");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_TRUE(fs::exists(folder_ / ".config/trainer/default_config.yaml"));
  EXPECT_NE(outcome.out.find("The configuration is not complete yet:"), std::string::npos);
  EXPECT_NE(outcome.out.find("data.train.path is required"), std::string::npos);
  EXPECT_NE(read_all(folder_ / ".config/trainer/default_config.yaml")
                .find("output_dir: " + (folder_ / "trainer_output").string() + "\n"),
            std::string::npos);
  write("answers.yaml",
        "distributed_type: MULTI_CPU\nnum_processes: 2\nmodel: {path: m}\ndata: {train: {path: a.txt}}\n");
  outcome = run("config --config_file b.yaml --answers answers.yaml");
  EXPECT_EQ(outcome.out, "\nconfiguration saved at b.yaml\nrun it with: trainer launch --config_file b.yaml\n");
  EXPECT_EQ(run("explain --config_file b.yaml").code, 0);
}

TEST_F(ConfigCommand, LeavesAnInvalidFileUnchanged) {
  write("broken.yaml", "sed: 1\n");
  for (const char* const command : {"config --yes", "config update", "config"}) {
    const Outcome outcome = run(fmt::format("{} --config_file broken.yaml", command));
    EXPECT_EQ(outcome.code, 2) << command;
    EXPECT_NE(outcome.err.find("sed is not an option (did you mean 'seed'?)"), std::string::npos) << outcome.err;
    EXPECT_EQ(read_all(folder_ / "broken.yaml"), "sed: 1\n");
  }
}

TEST_F(ConfigCommand, DefaultWritesAFile) {
  Outcome outcome = run("config default --config_file sub/d.yaml --mixed_precision bf16");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "configuration saved at sub/d.yaml\n");
  const std::string text = read_all(folder_ / "sub/d.yaml");
  EXPECT_EQ(text.find("compute_environment: LOCAL_MACHINE\ndebug: false\ndistributed_type: "), 0u) << text;
  for (const char* const line : {"mixed_precision: bf16\n", "downcast_bf16: false\n", "same_network: false\n"})
    EXPECT_NE(text.find(line), std::string::npos) << line << "in\n" << text;
  EXPECT_EQ(text.find("tpu_env"), std::string::npos);
  outcome = run("config default --config_file sub/d.yaml");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.out,
            "Configuration already exists at sub/d.yaml, will not override. Run `trainer config` manually or pass a "
            "different --config_file.\n");
  EXPECT_EQ(read_all(folder_ / "sub/d.yaml"), text);
  EXPECT_EQ(run("config default --config_file e.yaml --mixed_precision fp8").code, 2);
  run("config default --config_file f.json");
  EXPECT_EQ(read_all(folder_ / "f.json").find("{\n  \"compute_environment\": \"LOCAL_MACHINE\",\n"), 0u);
}

TEST_F(ConfigCommand, UpdateRewritesAFile) {
  write("old.yaml", "fp16: true\ndistributed_type: MULTI_CPU\nnum_processes: 2\nmain_process_ip: null\n");
  const Outcome outcome = run("config update --config_file old.yaml");
  EXPECT_EQ(outcome.out, "Successfully updated the configuration file at old.yaml.\n") << outcome.err;
  const std::string text = read_all(folder_ / "old.yaml");
  EXPECT_NE(text.find("mixed_precision: fp16\n"), std::string::npos) << text;
  EXPECT_EQ(text.find("main_process_ip"), std::string::npos) << text;
  const Outcome missing = run("config update --config_file none.yaml");
  EXPECT_EQ(missing.code, 2);
  EXPECT_EQ(missing.err, "The passed config file located at none.yaml doesn't exist.\n");
}

TEST_F(ConfigCommand, PrintsReferenceAndSchema) {
  EXPECT_NE(run("config reference").out.find("learning_rate"), std::string::npos);
  EXPECT_EQ(run("config schema").out.find("{"), 0u);
  EXPECT_EQ(run("config nonsense").code, 2);
}

}  // namespace
}  // namespace trainer
