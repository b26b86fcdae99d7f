#include <cstdlib>

#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/FlightRecorder.hpp>

#include "engine/dist/comm.h"
#include "tests/support/ranks.h"

namespace trainer::testing {
namespace {

TEST(Gloo, KeepsNoHistoryAndLeavesNcclsAsSet) {
  setenv("TORCH_FR_BUFFER_SIZE", "77", /*overwrite=*/1);
  run_gloo_ranks(2, [](dist::Comm& comm) { comm.sum(1.0); });
  EXPECT_STREQ(std::getenv("TORCH_FR_BUFFER_SIZE"), "77");
  EXPECT_EQ(c10d::dump_fr_trace_json(true, false).find("all_reduce"), std::string::npos);
  unsetenv("TORCH_FR_BUFFER_SIZE");
}

TEST(Gloo, LeavesNcclsHistoryOnByDefault) {
  unsetenv("TORCH_FR_BUFFER_SIZE");
  run_gloo_ranks(2, [](dist::Comm& comm) { comm.sum(1.0); });
  EXPECT_EQ(std::getenv("TORCH_FR_BUFFER_SIZE"), nullptr);
}

}  // namespace
}  // namespace trainer::testing
