// config.json of T5: what transformers would fail at only in the middle of a run.
#include <gtest/gtest.h>

#include "engine/base/errors.h"
#include "models/t5/config.h"

namespace trainer::testing {
namespace {

models::t5::T5Config t5(const std::string& json) {
  return models::t5::parse_config({.config_json = json, .origin = "here", .task = models::Task::kSeq2SeqLm});
}

TEST(T5ConfigTest, DistancesReachBeyondTheBucketsOfSingleOnes) {
  EXPECT_EQ(t5(R"({"relative_attention_num_buckets": 32, "relative_attention_max_distance": 17})")
                .relative_attention_max_distance,
            17);
  try {
    t5(R"({"relative_attention_num_buckets": 32, "relative_attention_max_distance": 16})");
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("above 16, half of relative_attention_num_buckets"), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace trainer::testing
