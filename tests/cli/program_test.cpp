// The program `trainer` from outside: its output and its exit codes.
#include "tests/cli/program.h"
#include <sstream>

#include <csignal>

#include "engine/base/terminal_text.h"
#include "engine/config/plan/plan.h"

namespace trainer {
namespace {

const std::string kJob =
    "distributed_type: MULTI_CPU\nnum_processes: 2\nmodel: {path: m}\ndata: {train: {path: a.txt}}\n";

TEST_F(Program, HelpAndVersion) {
  const std::string version = run("--version").out;
  EXPECT_EQ(version.substr(0, 8), "trainer ");
  EXPECT_NE(version.find("(libtorch 2."), std::string::npos) << version;
  const Outcome help = run("--help");
  EXPECT_EQ(help.code, 0);
  for (const char* name : {"config", "check", "launch", "explain", "tokenize"})
    EXPECT_NE(help.out.find(name), std::string::npos);
  std::istringstream lines(help.out);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80U) << line;
  std::vector<std::string> names;
  std::istringstream listed(help.out);
  for (std::string line; std::getline(listed, line);)  // "  merge            merge an adapter…"
    if (line.starts_with("  ") && line[2] != ' ') names.push_back(line.substr(2, line.find(' ', 2) - 2));
  EXPECT_GT(names.size(), 15U);
  for (const char* const sub : {"checkpoint list", "checkpoint verify", "checkpoint export", "checkpoint now",
                                "checkpoint prune"})
    names.emplace_back(sub);
  // The process becomes trainer-prepare for these two.
  std::erase_if(names, [](const std::string& name) { return name == "tokenize" || name == "cache"; });
  for (const std::string& command : names) {
    std::istringstream rows(run(command + " --help").out);
    for (std::string row; std::getline(rows, row);) EXPECT_LE(display_width(row), 80U) << command << ": " << row;
    const std::string text = run(command + " --help").out;
    const size_t examples = text.find("\nExamples:\n");
    ASSERT_NE(examples, std::string::npos) << command << ": " << text;
    EXPECT_NE(text.find("trainer " + command, examples), std::string::npos) << command;
  }
  const Outcome launch = run("launch --help");
  EXPECT_EQ(launch.code, 0);
  for (const char* flag :
       {"--num_processes", "--fsdp_sharding_strategy", "--fsdp_transformer_layer_cls_to_wrap", "--set", "--cpu",
        "--machine_rank", "--num_cpu_threads_per_process", "--mixed_precision", "--debug"}) {
    EXPECT_NE(launch.out.find(flag), std::string::npos) << flag;
  }
  EXPECT_EQ(run("").code, 2);
}

TEST_F(Program, SuggestsTheNearestName) {
  const Outcome command = run("lanch");
  EXPECT_EQ(command.code, 2);
  EXPECT_EQ(command.err, "there is no command 'lanch' (did you mean 'launch'?); `trainer --help` lists them\n");
  const Outcome flag = run("explain --num_procesess=3");
  EXPECT_EQ(flag.code, 2);
  EXPECT_EQ(flag.err, "'--num_procesess' is not a flag of `trainer explain` (did you mean '--num_processes'?)\n");
  const Outcome missing = run("explain --num_processes");
  EXPECT_EQ(missing.code, 2);
  EXPECT_NE(missing.err.find("--num_processes"), std::string::npos);
}

TEST_F(Program, CommandsOfOtherProgramsNameTheAlternative) {
  EXPECT_EQ(run("merge-lora").err,
            "there is no command 'merge-lora': `trainer merge` merges an adapter into its base model\n");
  for (const auto& [command, way] :
       {std::pair("predict", "`trainer generate`"), std::pair("evaluate", "`trainer eval`"),
        std::pair("checkpoint export a b --merge", "`trainer merge`"),
        std::pair("launch --generate", "evaluation.generate: true"),
        std::pair("launch --early_stopping_patience 3", "--set training.early_stopping_patience=VALUE"),
        std::pair("launch --load_best_model_at_end", "--set training.load_best_model_at_end=VALUE")}) {
    const Outcome outcome = run(command);
    EXPECT_EQ(outcome.code, 2) << command;
    EXPECT_NE(outcome.err.find(way), std::string::npos) << command << ": " << outcome.err;
  }
}

TEST_F(Program, PrintsOnlyTheProblems) {
  write("f.yaml", kJob + "sed: 1\ntraining: {learning_rate: x}\n");
  const Outcome outcome = run("launch --config_file f.yaml");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(outcome.err,
            "f.yaml:5:1: sed is not an option (did you mean 'seed'?)\n"
            "f.yaml:6:27: training.learning_rate must be a number; is 'x'\n"
            "2 problems; `trainer check` with the same arguments shows the lines\n");
  EXPECT_EQ(run("launch --config_file none.yaml").code, 2);
  write("g.yaml", kJob + "sed: 1\n");
  EXPECT_EQ(run("launch --config_file g.yaml").err, "g.yaml:5:1: sed is not an option (did you mean 'seed'?)\n");
}

TEST_F(Program, CheckShowsTheLines) {
  write("f.yaml", kJob + "sed: 1\ntraining: {learning_rate: x}\n");
  const Outcome outcome = run("check --config_file f.yaml --tpu");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(outcome.err,
            "f.yaml:5:1: sed is not an option (did you mean 'seed'?)\n"
            "    5 | sed: 1\n"
            "      | ^\n"
            "f.yaml:6:27: training.learning_rate must be a number; is 'x'\n"
            "    6 | training: {learning_rate: x}\n"
            "      |                           ^\n"
            "--tpu: is not supported: there is no TPU support\n"
            "3 problems in f.yaml\n");
  write("broken.yaml", "seed: 1\nlora: {r: 1]\n");
  const Outcome broken = run("check --config_file broken.yaml");
  EXPECT_EQ(broken.code, 2);
  EXPECT_NE(broken.err.find("\n1 problem in broken.yaml\n"), std::string::npos) << broken.err;
  EXPECT_NE(broken.err.find(" | "), std::string::npos) << broken.err;
}

TEST_F(Program, CheckAsJson) {
  write("f.yaml", kJob + "sed: 1\n");
  const Outcome outcome = run("check --config_file f.yaml --json --use_fsdp --multi_gpu --cpu");
  EXPECT_EQ(outcome.code, 2);
  const std::string expected =
      R"({"problems":[{"file":"f.yaml","line":5,"column":1,"option":"sed",)"
      R"j("message":"sed is not an option (did you mean 'seed'?)","rule":""},)j"
      R"({"file":null,"line":0,"column":0,"origin":"--multi_gpu","option":"",)"
      R"("message":"sets distributed_type to MULTI_GPU, and --use_fsdp sets it to FSDP: give one of them",)"
      R"("rule":"one-value"}]})";
  EXPECT_EQ(outcome.out, expected + "\n");
  EXPECT_EQ(outcome.err, "");
  write_worker("echo \"$@\"\n");
  write("g.yaml", kJob);
  EXPECT_EQ(run("check --json g.yaml").out, "check --json\n");
  EXPECT_EQ(run("check --json g.yaml --gpu-memory='A100 40GB'").out, "check --json --gpu_memory A100 40GB\n");
  EXPECT_EQ(run("check g.yaml --device H100 --net=400Gb").out, "check --device H100 --net 400Gb\n");
}

TEST_F(Program, CheckOfARunOnOtherMachines) {
  write("f.yaml", kJob);
  write_worker("grep -E '^ *(num_processes|num_machines): ' /proc/self/fd/$TRAINER_PLAN_FD\n");
  const Outcome outcome = run("check f.yaml --use_fsdp --nodes 16 --gpus=8 --device h100");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("num_processes: 128"), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("num_machines: 16"), std::string::npos) << outcome.out;
}

TEST_F(Program, AcceptsFlagsOfOtherLaunchers) {
  write("f.yaml", kJob);
  const Outcome outcome =
      run("explain f.yaml --nproc-per-node 3 --nnodes=1 --standalone --same_network false --fsdp_offload_params true "
          "-t 3 --rdzv_conf= --local-rank=0 --debug f.yaml");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_NE(outcome.err.find("only one JOB.yaml"), std::string::npos) << outcome.err;
  const Outcome good =
      run("explain --nproc-per-node 3 --nnodes=1 --standalone --same_network false -t 3 --rdzv_conf= --local-rank=0 "
          "--debug f.yaml");
  EXPECT_EQ(good.code, 0) << good.err;
  for (const char* line :
       {"num_processes: 3  # --nproc_per_node\n", "debug: true  # --debug\n", "num_machines: 1  # --standalone\n",
        "# Keys without effect:\n", "#   tee: 3 (--tee) because the output of every rank is in output_dir/logs\n",
        "#   local_rank: 0 (--local_rank) because the launcher numbers its ranks\n"}) {
    EXPECT_NE(good.out.find(line), std::string::npos) << line << "in\n" << good.out;
  }
  EXPECT_EQ(good.err, "");
  const Outcome script = run("launch --multi_gpu train.py --lr 3");
  EXPECT_EQ(script.code, 2);
  EXPECT_NE(script.err.find("train.py: trainer does not run Python scripts"), std::string::npos);
  EXPECT_EQ(
      run("launch --learning_rate 3 f.yaml").err,
      "'--learning_rate' is not a flag of `trainer launch`: --set training.learning_rate=VALUE sets that option\n");
}

TEST_F(Program, ExplainsOneOption) {
  const Outcome key = run("explain learning_rate fsdp_sharding_strategy");
  EXPECT_EQ(key.code, 0) << key.err;
  for (const char* text :
       {"training.learning_rate\n", "a number, at least 0\n", "--set training.learning_rate=VALUE\n",
        "fsdp_config.fsdp_sharding_strategy\n", "HYBRID_SHARD_ZERO2", "also read as  sharding_strategy",
        "--fsdp_sharding_strategy\n", "FSDP_SHARDING_STRATEGY\n"}) {
    EXPECT_NE(key.out.find(text), std::string::npos) << text << " in\n" << key.out;
  }
  EXPECT_EQ(key.out.find("  value"), std::string::npos);
  write("f.yaml", kJob + "training: {learning_rate: 0.5}\ndowncast_bf16: true\n");
  const Outcome value = run("explain f.yaml training.learning_rate downcast_bf16");
  EXPECT_NE(value.out.find("  value         0.5 (f.yaml:5:27)\n"), std::string::npos) << value.out;
  EXPECT_NE(value.out.find("  effect        none here: it is for TPUs\n"), std::string::npos) << value.out;
  EXPECT_NE(value.out.find("  given         true (f.yaml:6:1)\n"), std::string::npos) << value.out;
  EXPECT_NE(run("explain FSDP_VERSION").out.find("fsdp_config.fsdp_version\n"), std::string::npos);
  EXPECT_NE(run("explain lora").out.find("    lora_alpha "), std::string::npos);
  const Outcome unknown = run("explain learning_rat");
  EXPECT_EQ(unknown.code, 2);
  EXPECT_EQ(unknown.err, "'learning_rat' is neither an option nor a file (did you mean 'learning_rate'?)\n");
  const Outcome part = run("explain early_stopping");
  EXPECT_NE(part.err.find("options with it in their names: "), std::string::npos) << part.err;
  EXPECT_NE(part.err.find("evaluation.early_stopping_patience"), std::string::npos) << part.err;
}

TEST_F(Program, AcceptsDashesAndUnderscoresInFlags) {
  write("f.yaml", kJob);
  const Outcome outcome =
      run("explain --config-file=f.yaml --num-processes 3 --use-fsdp --cpu --fsdp-min-num-params 5 --debug "
          "--fsdp_transformer_layer_cls_to_wrap A,B --set training.learning_rate=1e-3 --set 'data.source={x}'");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  for (const char* line :
       {"num_processes: 3  # --num_processes\n", "distributed_type: FSDP  # --use_fsdp\n", "use_cpu: true  # --cpu\n",
        "  fsdp_min_num_params: 5  # --fsdp_min_num_params\n", "debug: true  # --debug\n",
        "  fsdp_transformer_layer_cls_to_wrap: A,B  # --fsdp_transformer_layer_cls_to_wrap\n",
        "  learning_rate: 0.001  # --set\n", "seed: 42  # default\n"}) {
    EXPECT_NE(outcome.out.find(line), std::string::npos) << line << "in\n" << outcome.out;
  }
  EXPECT_NE(outcome.out.find("# warning: --fsdp_min_num_params: fsdp_config.fsdp_min_num_params has no effect unless"),
            std::string::npos)
      << outcome.out;
}

TEST_F(Program, FindsTheDefaultFile) {
  EXPECT_EQ(run("explain").code, 2);
  EXPECT_NE(run("explain").err.find("trainer config"), std::string::npos);
  const std::string accelerate =
      write(".cache/huggingface/accelerate/default_config.yaml", "distributed_type: MULTI_CPU\nnum_processes: 7\n");
  write("job.yaml", "model: {path: m}\ndata: {train: {path: a}}\n");
  Outcome outcome = run("explain job.yaml");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "using Accelerate's file " + accelerate + "\n");
  EXPECT_NE(outcome.out.find("num_processes: 7"), std::string::npos);
  const std::string own =
      write(".config/trainer/default_config.yaml", "distributed_type: MULTI_CPU\nnum_processes: 5\n");
  EXPECT_EQ(run("explain job.yaml").err, "using " + own + "\n");
  setenv("TRAINER_CONFIG", accelerate.c_str(), 1);
  EXPECT_EQ(run("explain job.yaml").err, "using " + accelerate + " ($TRAINER_CONFIG)\n");
  write("whole.yaml", kJob);
  outcome = run("explain whole.yaml");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  EXPECT_NE(outcome.out.find("num_processes: 2"), std::string::npos);
}

TEST_F(Program, TheWorkerGetsPlanAndArguments) {
  write("f.yaml", kJob);
  EXPECT_EQ(run("check --config_file f.yaml").code, 4);  // no worker next to it
  write_worker("echo \"$@\"; cat /proc/self/fd/$TRAINER_PLAN_FD; exit 3\n");
  const Outcome outcome = run("check --config_file f.yaml --num_processes 3");
  EXPECT_EQ(outcome.code, 3);
  ASSERT_EQ(outcome.out.substr(0, 6), "check\n");
  EXPECT_EQ(config::parse_plan(outcome.out.substr(6)).world_size(), 3);
  write_prepare("echo \"$@\"\n");
  EXPECT_EQ(run("tokenize train --input a.txt --vocab-size 5").out, "tokenize train --input a.txt --vocab_size 5\n");
}

TEST_F(Program, LaunchStartsTheRanks) {
  write("f.yaml", kJob);
  write_worker("echo \"rank $RANK of $WORLD_SIZE\" >> " + (folder_ / "seen").string() + "\nexit 5\n");
  write_prepare("exit 0\n");
  const Outcome outcome = run("launch --config_file f.yaml");
  EXPECT_EQ(outcome.code, 5) << outcome.err;
  EXPECT_NE(read_all(folder_ / "seen").find("of 2"), std::string::npos);
}

TEST_F(Program, LaunchStartsNoRankWhenTheDataCannotBePrepared) {
  write("f.yaml", kJob);
  write_worker("touch " + (folder_ / "seen").string() + "\n");
  EXPECT_EQ(run("launch --config_file f.yaml").code, 4);  // nothing to prepare with
  write_prepare("echo what is wrong\nexit 3\n");
  const Outcome outcome = run("launch --config_file f.yaml");
  EXPECT_EQ(outcome.code, 3);
  EXPECT_NE(outcome.err.find("what is wrong"), std::string::npos) << outcome.err;
  EXPECT_FALSE(fs::exists(folder_ / "seen"));
}

/// The exit code as a shell reports it: 128 + the signal that ended the program.
int shell_code(const fs::path& folder, const std::string& command) {
  const std::string line = fmt::format("cd {} && bash -c '{}' 2> err.txt", folder.string(), command);
  return WEXITSTATUS(std::system(line.c_str()));
}

TEST_F(Program, ClosingTheOutputEarlyIsNotAnError) {
  EXPECT_EQ(shell_code(folder_, "./trainer config schema | head -1; exit ${PIPESTATUS[0]}"), 128 + SIGPIPE);
  EXPECT_EQ(read_all(folder_ / "err.txt"), "");
  EXPECT_EQ(shell_code(folder_, "trap \"\" PIPE; ./trainer config schema | head -1; exit ${PIPESTATUS[0]}"),
            128 + SIGPIPE);
  EXPECT_EQ(read_all(folder_ / "err.txt"), "");
}

TEST_F(Program, LosingTheOutputIsAnError) {
  for (const char* command : {"--version", "config schema"}) {  // less than a buffer, and more
    EXPECT_EQ(shell_code(folder_, fmt::format("./trainer {} > /dev/full", command)), 4);
    EXPECT_EQ(read_all(folder_ / "err.txt"), "cannot write to standard output: No space left on device\n");
    EXPECT_EQ(shell_code(folder_, fmt::format("./trainer {} >&-", command)), 4);
    EXPECT_EQ(read_all(folder_ / "err.txt"), "cannot write to standard output: Bad file descriptor\n");
  }
}

TEST_F(Program, LosingTheScreenDoesNotChangeTheExitCode) {
  write("f.yaml", kJob + "sed: 1\n");
  for (const char* screen : {"2> /dev/full", "2>&-", "2> >(true)", "> /dev/full 2>&1", ">&- 2>&- <&-"})
    for (const char* command : {"launch", "check"})
      EXPECT_EQ(
          shell_code(folder_, fmt::format("trap \"\" PIPE; ./trainer {} --config_file f.yaml {}", command, screen)), 2)
          << command << " " << screen;
}

/// With standard output closed, the first file that is opened would get its file descriptor.
TEST_F(Program, WritesNothingIntoOtherFilesWhenStandardOutputIsClosed) {
  write("f.yaml", kJob + "output_dir: out\n");
  write_prepare("exit 0\n");
  write_worker("echo from ${0:+the} rank; echo from ${0:+the} rank >&2; exit 5\n");
  EXPECT_EQ(shell_code(folder_, "./trainer launch --config_file f.yaml <&- >&- 2>&-"), 5);
  for (const auto& entry : fs::recursive_directory_iterator(folder_)) {
    if (!entry.is_regular_file() || entry.path().filename() == "trainer") continue;  // the program itself
    const std::string text = read_all(entry.path());
    EXPECT_EQ(text.find("from the rank"), std::string::npos) << entry.path();
    EXPECT_EQ(text.find("trainer: rank"), std::string::npos) << entry.path();  // the closing block
  }
}

}  // namespace
}  // namespace trainer
