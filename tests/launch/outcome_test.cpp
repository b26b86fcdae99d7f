#include "engine/launch/outcome.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace trainer::launch {
namespace {

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

}  // namespace
}  // namespace trainer::launch
