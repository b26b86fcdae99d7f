#pragma once

#include <gtest/gtest.h>

#include "tests/support/device.h"

namespace trainer::testing {

/// Tests that are skipped, with the reason, where there is no device.
class OnDevice : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = why_no_device(); !why.empty()) GTEST_SKIP() << why;
    static_cast<void>(device());  // from now on, the layers run what it has
  }
};

}  // namespace trainer::testing
