#include "engine/launch/outcome.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>

#include "engine/base/errors.h"
#include "engine/launch/attempts.h"
#include "tests/support/bare_checkpoint.h"
#include "tests/support/temporary_folder.h"

namespace trainer::launch {
namespace {

using testing::TemporaryFolder;

TEST(ClosingBlock, HasAtMostSixLines) {
  const std::string message = "1\n2\n\n3\n  4\n5\n6\n7\n8";
  for (int code : {1, 3, 137}) {
    const std::string block = closing_block({.code = code, .message = message}, {}, "/out");
    EXPECT_EQ(std::count(block.begin(), block.end(), '\n'), 6) << block;
    EXPECT_NE(block.find("\n  8\n"), std::string::npos) << "the last line says what to do";
    EXPECT_NE(block.find("no checkpoint yet"), std::string::npos);
  }
}

TEST(ClosingBlock, SaysWhereAndHowToResume) {
  const Outcome outcome{.code = 5, .rank = 3, .step = 12, .phase = "forward", .message = "the loss is NaN"};
  EXPECT_EQ(closing_block(outcome, {.checkpoint = "/out/checkpoint-10"}, "/out"),
            "trainer: rank 3, step 12 (forward): the loss is NaN\n"
            "  kept: /out/checkpoint-10; the same command resumes from it\n");
  const std::string block = closing_block(outcome, {.checkpoint = "/out/checkpoint-10", .resumes = false}, "/out");
  EXPECT_NE(block.find("set checkpoint.resume_from_checkpoint: auto"), std::string::npos);
  EXPECT_NE(closing_block(outcome, {.elsewhere = true}, "/out").find("kept: the leader's checkpoints"),
            std::string::npos);
  EXPECT_EQ(closing_block({}, {}, "/out"), "");
  EXPECT_EQ(closing_block(outcome, {.wrote_nothing = true, .temporary = true}, "/tmp/trainer-eval-1"),
            "trainer: rank 3, step 12 (forward): the loss is NaN\n");
}

TEST(ClosingBlock, DoesNotSayThatAnUnreadableFolderHasNoCheckpoint) {
  const TemporaryFolder folder;
  const std::string loop = (folder.path() / "loop").string();
  std::filesystem::create_symlink(loop, loop);
  EXPECT_EQ(newest_checkpoint(folder.path() / "missing"), "");
  std::string why;
  try {
    newest_checkpoint(loop);
  } catch (const MachineError& error) {
    why = error.what();
  }
  const std::string block = closing_block({.code = 6, .message = "lost"}, {.unreadable = why}, loop);
  EXPECT_NE(block.find("  kept: not known: cannot read " + loop), std::string::npos) << block;
  EXPECT_EQ(std::count(block.begin(), block.end(), '\n'), 2) << block;
}

TEST(ClosingBlock, DoesNotTakeAnotherProgramsCheckpointForOurs) {
  const TemporaryFolder output;
  testing::leave_bare_checkpoint(output.path(), 4);
  std::filesystem::create_directories(output.path() / "checkpoint-500");  // of the Hugging Face Trainer
  EXPECT_EQ(newest_checkpoint(output.path()), output.path() / "checkpoint-4");
}

TEST(Attempts, AFolderThatCantBeReadStartsNothingAgain) {
  const TemporaryFolder folder;
  const std::filesystem::path output = folder.path() / "run";
  testing::leave_bare_checkpoint(output, 4);
  config::Config config;
  config.output_dir = output.string();
  config.max_restarts = 2;
  Attempts attempts(config, std::chrono::milliseconds(1));
  testing::leave_bare_checkpoint(output, 8);
  Outcome ended{.code = 6, .step = 9, .message = "lost"};
  attempts.judge(ended);
  ASSERT_TRUE(ended.again);
  std::filesystem::rename(output, folder.path() / "away");
  std::filesystem::create_symlink(output, output);
  attempts.begin_next(ended);
  EXPECT_EQ(attempts.text(ended, true), "restart 1 of 2, from " + (output / "checkpoint-8").string());
  EXPECT_THROW(attempts.terms(), MachineError);
  std::filesystem::remove(output);
  std::filesystem::rename(folder.path() / "away", output);
  EXPECT_TRUE(attempts.terms().resumes);
}

}  // namespace
}  // namespace trainer::launch
