#include "engine/base/process_end.h"

#include <cstdio>
#include <cstdlib>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trainer {
namespace {

struct Global {
  ~Global() { std::fputs("destroyed\n", stderr); }
} global;

// Sanitizers set the same macros for this file as for process_end.cpp.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
const testing::Matcher<const std::string&> kGlobals = testing::HasSubstr("destroyed");
#else
const testing::Matcher<const std::string&> kGlobals = testing::Not(testing::HasSubstr("destroyed"));
#endif

void end_with(int code) {
  end_without_destroying_globals();
  std::atexit([] { std::fputs("handled later\n", stderr); });
  std::exit(code);
}

TEST(ProcessEnd, LeavesGlobalsButRunsLaterHandlersAndKeepsTheExitCode) {
  EXPECT_EXIT(end_with(7), testing::ExitedWithCode(7), testing::AllOf(kGlobals, testing::HasSubstr("handled later")));
}

TEST(ProcessEnd, WritesOutWhatStdioHolds) {
  testing::internal::CaptureStdout();
  EXPECT_EXIT(
      {
        std::fputs("held", stdout);
        end_with(0);
      },
      testing::ExitedWithCode(0), "");
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "held");
}

}  // namespace
}  // namespace trainer
