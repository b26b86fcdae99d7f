#include "tests/simulated/timeline.h"

#include <stdexcept>

#include <gtest/gtest.h>

namespace trainer::simulated {
namespace {

constexpr Range kBlock{1000, 2000}, kFirst{1000, 1500}, kSecond{1500, 2000};

class TimelineTest : public ::testing::Test {
 protected:
  TimelineTest() { timeline.allocated(kBlock, compute); }

  void reads(StreamNumber stream, const Range& range = kBlock) { timeline.launch(stream, "a read", {range}, {}); }
  void writes(StreamNumber stream, const Range& range = kBlock) { timeline.launch(stream, "a write", {}, {range}); }
  void waits(StreamNumber stream, StreamNumber other) { timeline.wait(stream, timeline.clock_of(other)); }

  Timeline timeline;
  const StreamNumber compute = timeline.add_stream("compute"), transfers = timeline.add_stream("transfers");
};

TEST_F(TimelineTest, OneStreamIsInOrder) {
  writes(compute);
  reads(compute);
  writes(compute);
}

TEST_F(TimelineTest, AnEventOrdersTwoStreams) {
  writes(compute);
  waits(transfers, compute);
  reads(transfers);
  waits(compute, transfers);
  writes(compute);
}

TEST_F(TimelineTest, WithoutAnEventItIsARaceThatNamesBoth) {
  writes(compute);
  try {
    reads(transfers);
    FAIL();
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(),
                 "a race on the simulated device: a write on stream compute, which writes it, and, not ordered after "
                 "it, a read on stream transfers, which reads it,");
  }
}

TEST_F(TimelineTest, AnEventOrdersOnlyWhatWasBeforeIt) {
  writes(compute, kFirst);
  const Clock event = timeline.clock_of(compute);
  writes(compute, kSecond);
  timeline.wait(transfers, event);
  reads(transfers, kFirst);
  EXPECT_THROW(reads(transfers, kSecond), std::runtime_error);
}

TEST_F(TimelineTest, AWriteMustComeAfterAllReads) {
  writes(compute);
  waits(transfers, compute);
  reads(transfers);
  reads(compute);
  EXPECT_THROW(writes(compute), std::runtime_error);
}

TEST_F(TimelineTest, ReadsAndDifferentRangesAreIndependent) {
  writes(compute, kFirst);
  writes(transfers, kSecond);
  reads(compute, kFirst);
  reads(transfers, kSecond);
}

TEST_F(TimelineTest, OrderIsTransitive) {
  const StreamNumber third = timeline.add_stream("third");
  writes(compute);
  waits(transfers, compute);
  waits(third, transfers);
  reads(third);
}

TEST_F(TimelineTest, TheHostOrdersWhatItLaunchesAfterASynchronization) {
  writes(compute);
  timeline.synchronize(compute);
  reads(transfers);
}

TEST_F(TimelineTest, MemoryIsFreedAfterAllUses) {
  writes(compute);
  waits(transfers, compute);
  reads(transfers);
  timeline.freed(kBlock.begin);
  EXPECT_NE(timeline.errors().find("freed while a read on stream transfers"), std::string::npos);
}

TEST_F(TimelineTest, ALateFreeEndsTheNextLaunch) {
  waits(transfers, compute);
  reads(transfers);
  timeline.freed(kBlock.begin);
  EXPECT_THROW(writes(compute), std::runtime_error);
}

TEST_F(TimelineTest, RecordedUsesMayOutliveAFree) {
  writes(compute);
  waits(transfers, compute);
  reads(transfers);
  timeline.used_on(kBlock.begin, transfers);
  timeline.freed(kBlock.begin);
  EXPECT_EQ(timeline.errors(), "");
}

TEST_F(TimelineTest, NewMemoryHasNoHistory) {
  reads(transfers);
  waits(compute, transfers);
  timeline.freed(kBlock.begin);
  timeline.allocated(kBlock, compute);
  writes(compute);
}

}  // namespace
}  // namespace trainer::simulated
