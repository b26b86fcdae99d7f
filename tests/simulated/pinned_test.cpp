// Code of the host that uses pinned memory without an operator, and events that are asked instead of waited for.
#include "tests/simulated/pinned.h"

#include <cmath>
#include <stdexcept>
#include <string>

#include <gtest/gtest.h>

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <c10/core/Event.h>

#include "tests/simulated/device.h"
#include "tests/support/device.h"

namespace trainer::testing {
namespace {

constexpr int64_t kNumbers = 3000;  // of several pages

class Pinned : public ::testing::Test {
 protected:
  /// The numbers of the device, on their way to the host.
  at::Tensor copied_to_host() {
    at::Tensor here = at::empty({kNumbers}, at::TensorOptions().pinned_memory(true));
    here.copy_(at::full({kNumbers}, 3.0F, device()), /*non_blocking=*/true);
    return here;
  }
  static std::string next_error() {
    try {
      simulated::timeline().throw_errors();
      return "";
    } catch (const std::runtime_error& error) {
      return error.what();
    }
  }
  static void wait() { guard().synchronizeStream(guard().getStream(device())); }
  static const c10::impl::VirtualGuardImpl& guard() {
    static const c10::impl::VirtualGuardImpl one(simulated::kType);
    return one;
  }
};

TEST_F(Pinned, CodeThatReadsTooEarlyIsFound) {
  const at::Tensor here = copied_to_host();
  const float* const numbers = here.const_data_ptr<float>();
  EXPECT_TRUE(std::isnan(*static_cast<const volatile float*>(numbers + 2000)));
  const std::string error = next_error();
  EXPECT_NE(error.find("a copy on stream default of device 0, which writes it, and, before the host has waited for it, "
                       "code at "),
            std::string::npos)
      << error;
  EXPECT_NE(error.find("on the host, which reads it"), std::string::npos) << error;
  wait();
  EXPECT_EQ(numbers[2000], 3.0F);
  EXPECT_EQ(next_error(), "");
}

TEST_F(Pinned, CodeThatWritesWhatIsStillCopiedIsFound) {
  const at::Tensor here = at::full({kNumbers}, 2.0F, at::TensorOptions().pinned_memory(true));
  const at::Tensor there = here.to(device(), /*non_blocking=*/true);
  auto* const numbers = here.mutable_data_ptr<float>();
  EXPECT_EQ(*static_cast<volatile float*>(numbers), 2.0F);
  EXPECT_EQ(next_error(), "") << "it may read";
  *static_cast<volatile float*>(numbers) = 5;
  EXPECT_NE(next_error().find("on the host, which writes it"), std::string::npos);
  wait();
  *static_cast<volatile float*>(numbers) = 6;
  EXPECT_EQ(next_error(), "");
  EXPECT_EQ(there.cpu()[0].item<float>(), 2.0F);
}

TEST_F(Pinned, WhatIsNotCopiedIsNotMeant) {
  const at::Tensor here = at::full({kNumbers}, 2.0F, at::TensorOptions().pinned_memory(true));
  const at::Tensor there = here.narrow(0, 0, 1000).to(device(), /*non_blocking=*/true);
  *static_cast<volatile float*>(here.mutable_data_ptr<float>() + 1000) = 5;
  EXPECT_EQ(next_error(), "");
  wait();
}

TEST_F(Pinned, AnEventThatIsAskedIsDoneTheSecondTime) {
  const at::Tensor here = copied_to_host();
  c10::Event event(simulated::kType);
  event.record(guard().getStream(device()));
  EXPECT_FALSE(event.query());
  EXPECT_TRUE(event.query());
  EXPECT_EQ(*static_cast<const volatile float*>(here.const_data_ptr<float>()), 3.0F);
  EXPECT_EQ(next_error(), "");
}

TEST_F(Pinned, AnEventThatTheHostHasWaitedForIsDone) {
  const at::Tensor here = copied_to_host();
  c10::Event event(simulated::kType);
  event.record(guard().getStream(device()));
  wait();
  EXPECT_TRUE(event.query());
}

}  // namespace
}  // namespace trainer::testing
