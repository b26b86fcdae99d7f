#include "engine/metrics/event_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>

#include "engine/base/crc32c.h"
#include "engine/base/files.h"
#include "engine/metrics/histogram_limits.h"

namespace trainer::metrics {
namespace {

std::string hex(std::string_view bytes) {
  std::string text;
  for (char byte : bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return text;
}

TEST(Crc32c, CheckValue) {
  EXPECT_EQ(crc32c("123456789", 9), 0xE3069283);
  EXPECT_EQ(crc32c("", 0), 0U);
}

// The bytes that TensorBoard's own protobuf classes produce.
TEST(EventFile, EncodesEvents) {
  EXPECT_EQ(hex(version_event(1.5)), "09000000000000f83f1a0d627261696e2e4576656e743a32");
  EXPECT_EQ(hex(scalar_event(1.5, 7, "train/loss", 2.5F)),
            "09000000000000f83f10072a130a110a0a747261696e2f6c6f73731500002040");
  EXPECT_EQ(hex(restart_event(1.5, 300)), "09000000000000f83f10ac023a020801");
}

// The bytes that TensorBoard's own protobuf classes produce; tensorboard_test.py reads a run's with TensorBoard itself.
TEST(EventFile, EncodesTexts) {
  EXPECT_EQ(hex(text_event(1.5, 7, "t", "hi")),
            "09000000000000f83f10072a1d0a1b0a0174"
            "420c"
            "0807"
            "120412020801"
            "42026869"
            "4a080a060a0474657874");
}

// The bytes that TensorBoard's own protobuf classes produce from numpy's histogram of 1 and 1.01, cut as SummaryWriter does.
TEST(EventFile, EncodesHistograms) {
  const std::vector<double>& limits = histogram_limits();
  ASSERT_EQ(limits.size(), 1549U);
  const auto above = std::upper_bound(limits.begin(), limits.end(), 1.0);
  Histogram two{"t", 1, 1.01, 2, 2.01, 2.0201000000000002, std::vector<double>(limits.size() - 1)};
  two.buckets[static_cast<size_t>(above - limits.begin()) - 1] = 1;
  two.buckets[static_cast<size_t>(above - limits.begin())] = 1;
  EXPECT_EQ(hex(histogram_event(1.5, 7, two)),
            "09000000000000f83f10072a680a660a01742a6109000000000000f03f11295c8fc2f528f03f1900000000000000402114ae47e17a14004029"
            "623255302a290040321808996919155aed3f2b14facdbe24f03f6349c61505c2f13f3a180000000000000000000000000000f03f0000000000"
            "00f03f");
  EXPECT_EQ(histogram_event(1.5, 7, {"t", 0, 0, 0, 0, 0, std::vector<double>(limits.size() - 1)}), "");
}

/// The events of a file; fails when a frame is broken.
std::vector<std::string> events_of(std::string_view content) {
  std::vector<std::string> events;
  while (!content.empty()) {
    uint64_t length = 0;
    std::memcpy(&length, content.data(), sizeof(length));
    const std::string event(content.substr(12, length));
    EXPECT_EQ(content.substr(0, 12 + length + 4), framed(event));
    events.push_back(event);
    content.remove_prefix(std::min(content.size(), 12 + length + 4));
  }
  return events;
}

TEST(EventFile, FramesWithMaskedChecksums) {
  // The masked check values were computed bit by bit, independently of this code.
  EXPECT_EQ(hex(framed("123456789")),
            "0900000000000000"
            "37f97139"
            "313233343536373839"
            "e5b08ac7");
}

TEST(EventFile, WritesTheTrainersTags) {
  std::string pattern = (std::filesystem::temp_directory_path() / "events.XXXXXX").string();
  const std::filesystem::path folder = mkdtemp(pattern.data());
  std::string content;
  {
    EventFile file(folder / "tensorboard", 10);
    file.write(StepRecord{.step = 11, .loss = 2.5});
    file.write(EvaluationRecord{12, 1.0, {{"eval_accuracy", 0.5}}});
    EXPECT_TRUE(file.path().filename().string().starts_with("events.out.tfevents."));
    content = read_file(file.path());
  }
  const std::vector<std::string> events = events_of(content);
  ASSERT_EQ(events.size(), 2U + 7 + 1);
  constexpr size_t kWallTime = 9;  // differs from run to run
  EXPECT_EQ(events[0].substr(kWallTime), version_event(0).substr(kWallTime));
  EXPECT_EQ(events[1].substr(kWallTime), restart_event(0, 11).substr(kWallTime));
  EXPECT_EQ(events[2].substr(kWallTime), scalar_event(0, 11, "train/loss", 2.5F).substr(kWallTime));
  EXPECT_EQ(events[9].substr(kWallTime), scalar_event(0, 12, "eval/accuracy", 0.5F).substr(kWallTime));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace trainer::metrics
