#include "engine/base/human.h"

#include <limits>

#include <gtest/gtest.h>

namespace trainer {
namespace {

TEST(Human, FormatsCounts) {
  EXPECT_EQ(human_count(0), "0");
  EXPECT_EQ(human_count(950), "950");
  EXPECT_EQ(human_count(999.4), "999");
  EXPECT_EQ(human_count(999.6), "1.0k");
  EXPECT_EQ(human_count(1234), "1.2k");
  EXPECT_EQ(human_count(9960), "10k");
  EXPECT_EQ(human_count(34567), "35k");
  EXPECT_EQ(human_count(999'999), "1.0M");
  EXPECT_EQ(human_count(5.6e6), "5.6M");
  EXPECT_EQ(human_count(std::numeric_limits<double>::quiet_NaN()), "?");
}

TEST(Human, FormatsBytes) {
  EXPECT_EQ(human_bytes(512), "512 B");
  EXPECT_EQ(human_bytes(1536), "1.5 KiB");
  EXPECT_EQ(human_bytes(int64_t{12} << 30), "12 GiB");
  EXPECT_EQ(human_bytes((int64_t{1} << 20) - 1), "1.0 MiB");
}

TEST(Human, FormatsSeconds) {
  EXPECT_EQ(human_seconds(0.44), "0.4s");
  EXPECT_EQ(human_seconds(9.96), "10s");
  EXPECT_EQ(human_seconds(59.6), "1m 00s");
  EXPECT_EQ(human_seconds(192), "3m 12s");
  EXPECT_EQ(human_seconds(7500), "2h 05m");
  EXPECT_EQ(human_seconds(86400 * 3 + 3600 * 4), "3d 04h");
  EXPECT_EQ(human_seconds(-1), "?");
  EXPECT_EQ(human_seconds(std::numeric_limits<double>::infinity()), "?");
}

}  // namespace
}  // namespace trainer
