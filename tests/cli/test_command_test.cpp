// `trainer test` and `trainer estimate-memory` up to the worker.
#include "tests/cli/program.h"

namespace trainer {
namespace {

const std::string kAccelerate = "distributed_type: FSDP\nnum_processes: 2\nuse_cpu: true\nmixed_precision: 'no'\n";

TEST_F(Program, TestNeedsNoModelAndReportsTheLostRank) {
  write("f.yaml", kAccelerate);
  write_worker("echo \"$@\" > words.txt\nkill -9 $$\n");
  const Outcome outcome = run("test --config_file f.yaml");
  EXPECT_EQ(outcome.code, 137) << outcome.err;
  EXPECT_EQ(read_all(folder_ / "words.txt"), "selftest configuration 0 0 \n");
  EXPECT_TRUE(
      outcome.err.ends_with("The test failed (exit code 137): f.yaml (FSDP FULL_SHARD, 2 ranks, CPU, "
                            "mixed_precision no); the reason is above.\n"))
      << outcome.err;
  EXPECT_EQ(outcome.out.find("success"), std::string::npos);
}

TEST_F(Program, TestListsTheProblemsOfAConfiguration) {
  write("f.yaml", kAccelerate + "sed: 1\n");
  const Outcome outcome = run("test --config_file f.yaml");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(outcome.err,
            "The test failed; nothing was trained:\nf.yaml:5:1: sed is not an option (did you mean 'seed'?)\n");
  EXPECT_EQ(run("test --config_file none.yaml").code, 2);
  EXPECT_NE(run("test").err.find("no configuration file found"), std::string::npos);
}

TEST_F(Program, EstimateMemoryFindsTheConfig) {
  write("m/config.json", "{}");
  write_worker("echo \"$@\"\n");
  EXPECT_EQ(run("estimate-memory m").out,
            "estimate-memory --config_json m/config.json --name m --num_processes 1 --batch_size 1\n");
  EXPECT_EQ(run("estimate-memory m/config.json --dtypes fp32 bf16 --lora 4 --target-modules q,v --sequence_length=9 "
                "--num_processes 8 --batch_size 2 --task causal_lm --gradient_checkpointing --cpu --json")
                .out,
            "estimate-memory --config_json m/config.json --name m/config.json --task causal_lm --dtype float32 --dtype "
            "bfloat16 --target q --target v --lora 4 --sequence_length 9 --num_processes 8 --batch_size 2 "
            "--gradient_checkpointing --cpu --json\n");
  const Outcome missing = run("estimate-memory some/name");
  EXPECT_EQ(missing.code, 3);
  EXPECT_NE(missing.err.find("hf download some/name"), std::string::npos) << missing.err;
  EXPECT_EQ(run("estimate-memory m --dtypes float8").code, 2);
  EXPECT_EQ(run("estimate-memory").code, 2);
}

}  // namespace
}  // namespace trainer
