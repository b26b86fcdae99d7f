#include <algorithm>
#include <numeric>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>

#include "engine/base/files.h"
#include "engine/dist/step_phase.h"
#include "engine/train/profile/profile.h"
#include "tests/support/temporary_folder.h"

namespace trainer::testing {
namespace {

using ::testing::HasSubstr;
using train::OperatorRecorder;
using train::OperatorTime;
using train::Phase;
using train::PhaseClock;
using train::Work;

double seconds_of(const train::PhaseSeconds& seconds, Phase phase) {
  return seconds.at(static_cast<size_t>(phase));
}

at::Tensor square(int64_t size) {
  return at::ones({size, size});
}

TEST(PhaseClock, GivesTimeToTheInnermostPhase) {
  PhaseClock clock(at::kCPU);
  {
    const dist::StepPhase backward(dist::step_phase::kBackward);
    const dist::StepPhase data(dist::step_phase::kData);
    at::mm(square(256), square(256));
  }
  at::mm(square(256), square(256));
  const train::PhaseSeconds lap = clock.lap();
  for (const Phase phase : {Phase::kData, Phase::kBackward, Phase::kOther}) EXPECT_GT(seconds_of(lap, phase), 0);
  EXPECT_EQ(seconds_of(lap, Phase::kForward), 0);
  EXPECT_EQ(seconds_of(clock.lap(), Phase::kData), 0);
}

TEST(PhaseClock, OtherScopesBelongToThePhaseAroundThem) {
  PhaseClock clock(at::kCPU);
  {
    const dist::StepPhase forward(dist::step_phase::kForward);
    const dist::StepPhase module("T5Block");
    at::mm(square(256), square(256));
  }
  const train::PhaseSeconds lap = clock.lap();
  EXPECT_GT(seconds_of(lap, Phase::kForward), 0);
  for (const Phase phase : {Phase::kData, Phase::kBackward, Phase::kClipping}) EXPECT_EQ(seconds_of(lap, phase), 0);
}

const OperatorTime& named(const std::vector<OperatorTime>& operators, const std::string& name) {
  const auto found =
      std::find_if(operators.begin(), operators.end(), [&](const OperatorTime& one) { return one.name == name; });
  if (found == operators.end()) throw std::runtime_error(name);
  return *found;
}

TEST(OperatorRecorder, CountsCallsFlopsAndOwnTime) {
  OperatorRecorder recorder(false);
  {
    const dist::StepPhase forward(dist::step_phase::kForward);  // a phase isn't an operator
    const dist::StepPhase module("trainer::nn::PackedAttention");
    for (int i = 0; i < 3; ++i) at::mm(square(64), square(64));
  }
  recorder.stop();
  const std::vector<OperatorTime> operators = recorder.operators();
  const OperatorTime& mm = named(operators, "aten::mm");
  EXPECT_EQ(mm.calls, 3);
  EXPECT_EQ(mm.flops, 3 * 2.0 * 64 * 64 * 64);
  EXPECT_EQ(mm.work, Work::kProduct);
  EXPECT_EQ(named(operators, "PackedAttention").work, Work::kAttention);
  EXPECT_EQ(named(operators, "PackedAttention").calls, 1);
  EXPECT_EQ(named(operators, "aten::ones").flops, 0);
  for (const OperatorTime& one : operators) EXPECT_NE(one.name, "forward");
}

TEST(OperatorRecorder, WritesATrace) {
  const TemporaryFolder folder;
  OperatorRecorder recorder(false);
  at::mm(square(8), square(8));
  recorder.stop();
  recorder.write_trace(folder.path() / "trace.json");
  const auto trace = nlohmann::json::parse(read_file(folder.path() / "trace.json"));
  const auto& events = trace.at("traceEvents");
  EXPECT_TRUE(std::any_of(events.begin(), events.end(), [](const auto& one) { return one["name"] == "aten::mm"; }));
}

train::Profile sample() {
  train::Profile profile;
  profile.device = "an NVIDIA RTX PRO 6000 Blackwell Workstation";
  profile.dtype = "bfloat16";
  profile.ranks = 1024;
  profile.phases = {1.5, 123.4, 234.5, 34.5, 0.001, 23.4, 1.2};
  profile.seconds = std::accumulate(profile.phases.begin(), profile.phases.end(), 0.0);
  for (size_t i = 0; i < train::kPhases; ++i) profile.slowest[i] = {1023, profile.phases[i] + 100};
  profile.recorded_seconds = 1.1 * profile.seconds;
  profile.operators = {{"aten::mm", Work::kProduct, 12345, 200, 2e15},
                       {std::string(90, 'x') + "Backward", Work::kOther, 1, 100, 0},
                       {"PackedAttention", Work::kAttention, 3, 50, 0},
                       {"aten::copy_", Work::kOther, 1, 0.01, 0}};
  profile.peak = {2e13, 1e12};
  profile.resident_bytes = profile.tensor_bytes = int64_t{123} << 30;
  return profile;
}

TEST(ProfileText, Fits80Columns) {
  std::istringstream lines(train::profile_text(sample()));
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80U) << line;
}

TEST(ProfileText, SharesAreOfTheUpdatesThatWereMeasured) {
  const train::Profile profile = sample();
  EXPECT_DOUBLE_EQ(profile.share_of(Work::kProduct), 200 / profile.recorded_seconds);
  EXPECT_NEAR(profile.overhead(), 0.1, 1e-9);
  const std::string text = train::profile_text(profile);
  EXPECT_THAT(text, HasSubstr("+10.0 %"));
  EXPECT_THAT(text, HasSubstr("1 other"));  // aten::copy_
  EXPECT_THAT(text, HasSubstr("  50\n"));   // aten::mm reaches half of the peak
}

}  // namespace
}  // namespace trainer::testing
