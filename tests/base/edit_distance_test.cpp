#include "engine/base/edit_distance.h"

#include <gtest/gtest.h>

namespace trainer {
namespace {

TEST(EditDistance, CountsEdits) {
  EXPECT_EQ(edit_distance("", ""), 0u);
  EXPECT_EQ(edit_distance("abc", ""), 3u);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
  EXPECT_EQ(edit_distance("abc", "ABC"), 0u);
  EXPECT_EQ(edit_distance("lora_alhpa", "lora_alpha"), 1u);  // a swap is one edit
}

TEST(EditDistance, FindsTheNearestNameOrNone) {
  const std::vector<std::string> names{"num_processes", "num_machines", "seed"};
  EXPECT_EQ(nearest("num_procesess", names), "num_processes");
  EXPECT_EQ(nearest("num-machines", names), "num_machines");
  EXPECT_EQ(nearest("wandb_project", names), "");
  EXPECT_EQ(nearest(std::string(1'000'000, 'x'), names), "");
}

TEST(EditDistance, AShortNameIsNotReplacedByAnUnrelatedOne) {
  EXPECT_EQ(nearest("x", {"r", "ab"}), "");
}

TEST(EditDistance, DidYouMeanNamesTheNearest) {
  EXPECT_EQ(did_you_mean("sed", {"seed"}), " (did you mean 'seed'?)");
  EXPECT_EQ(did_you_mean("output", {"seed"}), "");
}

}  // namespace
}  // namespace trainer
