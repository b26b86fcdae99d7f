#include "tests/simulated/timeline.h"

#include <map>
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
  EXPECT_EQ(timeline.errors(),
            "memory of stream compute is freed, after a write there, while a read on stream transfers, which reads it, "
            "may still use it\n");
}

TEST_F(TimelineTest, ALateFreeEndsTheNextLaunch) {
  waits(transfers, compute);
  reads(transfers);
  timeline.freed(kBlock.begin);
  EXPECT_THROW(writes(compute), std::runtime_error);
}

/// A copy from the device to pinned memory of the host, and one in the other direction.
class PinnedMemory : public TimelineTest {
 protected:
  PinnedMemory() { timeline.allocated(kPinned, kHost); }

  void copy_to_host() { timeline.launch(transfers, "a copy", {}, {kPinned}); }
  void copy_to_device() { timeline.launch(transfers, "a copy", {kPinned}, {}); }

  static constexpr Range kPinned{5000, 6000}, kNext{6000, 7000};
};

TEST_F(PinnedMemory, TheHostReadsAfterItHasWaited) {
  copy_to_host();
  timeline.wait(kHost, timeline.clock_of(transfers));
  timeline.host_uses("aten::add", {kPinned}, {kPinned});
  EXPECT_EQ(timeline.errors(), "");
}

TEST_F(PinnedMemory, ReadingEarlyIsARaceThatNamesBoth) {
  copy_to_host();
  timeline.synchronize(compute);
  timeline.host_uses("aten::add", {kPinned}, {});
  EXPECT_EQ(timeline.errors(),
            "a race on the simulated device: a copy on stream transfers, which writes it, and, before the host has "
            "waited for it, aten::add on the host, which reads it\n");
}

TEST_F(PinnedMemory, AnEventBeforeTheCopyIsNotEnough) {
  const Clock before = timeline.clock_of(transfers);
  copy_to_host();
  timeline.wait(kHost, before);
  timeline.host_uses("aten::add", {kPinned}, {});
  EXPECT_THROW(reads(compute), std::runtime_error);
}

TEST_F(PinnedMemory, TheHostMayReadButNotWriteWhatIsCopied) {
  copy_to_device();
  timeline.host_uses("aten::add", {kPinned}, {});
  timeline.host_uses("aten::add_", {}, {kNext});
  EXPECT_EQ(timeline.errors(), "");
  timeline.host_uses("aten::add_", {}, {kPinned});
  EXPECT_NE(timeline.errors().find("aten::add_ on the host, which writes it"), std::string::npos);
}

TEST_F(PinnedMemory, TwoStreamsRaceOnItToo) {
  copy_to_host();
  EXPECT_THROW(timeline.launch(compute, "a copy", {kPinned}, {}), std::runtime_error);
}

TEST_F(PinnedMemory, ValuesArriveWhenTheHostHasWaited) {
  std::vector<char> memory(4, 'x');
  const auto begin = reinterpret_cast<uintptr_t>(memory.data());
  const Range range{begin, begin + 4};
  timeline.allocated(range, kHost);
  timeline.launch(transfers, "a copy", {}, {range});
  timeline.writes_later(transfers, range, memory.data(), {'a', 'b', 'c', 'd'});
  timeline.synchronize(compute);
  EXPECT_EQ(memory[0], 'x');
  timeline.synchronize(transfers);
  EXPECT_EQ(std::string(memory.begin(), memory.end()), "abcd");
}

TEST_F(PinnedMemory, ValuesArriveBeforeTheDeviceUsesThem) {
  std::vector<char> memory(4, 'x');
  const auto begin = reinterpret_cast<uintptr_t>(memory.data());
  const Range range{begin, begin + 4};
  timeline.allocated(range, kHost);
  timeline.launch(transfers, "a copy", {}, {range});
  timeline.writes_later(transfers, range, memory.data(), {'a', 'b', 'c', 'd'});
  waits(compute, transfers);
  timeline.launch(compute, "a copy", {range}, {});
  EXPECT_EQ(memory[3], 'd');
}

/// What the host may do, as the timeline says.
class ProtectedMemory : public ::testing::Test {
 protected:
  ProtectedMemory() {
    states().clear();
    timeline.allocated(kFirst, kHost);
    timeline.allocated(kSecond, kHost);
  }
  static std::map<uintptr_t, Allowed>& states() {
    static std::map<uintptr_t, Allowed> all;
    return all;
  }
  static void note(uintptr_t block, Allowed allowed) { states()[block] = allowed; }
  static Allowed first() { return states().contains(kFirst.begin) ? states()[kFirst.begin] : Allowed::kAll; }

  Timeline timeline{&note};
  const StreamNumber compute = timeline.add_stream("compute"), transfers = timeline.add_stream("transfers");
};

TEST_F(ProtectedMemory, TheHostReadsWhatTheDeviceReads) {
  timeline.launch(transfers, "a copy", {kFirst}, {});
  EXPECT_EQ(first(), Allowed::kReading);
  timeline.synchronize(compute);
  EXPECT_EQ(first(), Allowed::kReading);
  timeline.synchronize(transfers);
  EXPECT_EQ(first(), Allowed::kAll);
  EXPECT_FALSE(states().contains(kSecond.begin));
}

TEST_F(ProtectedMemory, TheHostMustNotUseWhatTheDeviceWrites) {
  timeline.launch(transfers, "a copy", {}, {kFirst});
  const Clock event = timeline.clock_of(transfers);
  timeline.launch(transfers, "a copy", {kFirst}, {});
  EXPECT_EQ(first(), Allowed::kNothing);
  timeline.wait(kHost, event);
  EXPECT_EQ(first(), Allowed::kReading);
}

TEST_F(ProtectedMemory, ATouchIsARaceOnlyWhereTheDeviceUsesIt) {
  timeline.launch(transfers, "a copy", {}, {{kFirst.begin + 100, kFirst.begin + 200}});
  timeline.host_touches("code", kFirst.begin + 200, /*writes=*/true);
  EXPECT_EQ(timeline.errors(), "");
  EXPECT_EQ(first(), Allowed::kAll);
  timeline.launch(transfers, "a copy", {}, {{kFirst.begin + 200, kFirst.begin + 300}});
  EXPECT_EQ(first(), Allowed::kNothing);
  timeline.host_touches("code", kFirst.begin + 100, /*writes=*/false);
  EXPECT_EQ(timeline.errors(),
            "a race on the simulated device: a copy on stream transfers, which writes it, and, before the host has "
            "waited for it, code on the host, which reads it\n");
}

TEST_F(ProtectedMemory, FreedMemoryIsForgotten) {
  timeline.launch(transfers, "a copy", {}, {kFirst});
  timeline.freed(kFirst.begin);
  timeline.synchronize(transfers);
  timeline.host_touches("code", kFirst.begin, /*writes=*/true);
  EXPECT_EQ(timeline.errors(), "");
}

TEST_F(TimelineTest, NewMemoryHasNoHistory) {
  reads(transfers);
  waits(compute, transfers);
  timeline.freed(kBlock.begin);
  timeline.allocated(kBlock, compute);
  writes(compute);
}

TEST_F(TimelineTest, AFreedBlockIsReusedOnlyAfterItsLastUse) {
  writes(compute);
  waits(transfers, compute);
  reads(transfers);
  timeline.used_on(kBlock.begin, transfers);
  timeline.freed(kBlock.begin);
  EXPECT_EQ(timeline.errors(), "");
  EXPECT_FALSE(timeline.may_reuse(kBlock.begin, compute));
  waits(compute, transfers);
  EXPECT_TRUE(timeline.may_reuse(kBlock.begin, compute));
  const StreamNumber other = timeline.add_stream("another one");
  EXPECT_FALSE(timeline.may_reuse(kBlock.begin, other));
  timeline.allocated(kBlock, other);
  try {
    timeline.launch(other, "aten::add", {}, {kFirst});
    FAIL();
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(),
                 "a race on the simulated device: a write on stream compute, which writes it for a tensor freed since, "
                 "and, not ordered after it, aten::add on stream another one, which writes it,");
  }
}

TEST_F(TimelineTest, MemoryThatIsReusedTooEarlyButNotUsedIsNoRace) {
  reads(transfers);
  timeline.used_on(kBlock.begin, transfers);
  timeline.freed(kBlock.begin);
  timeline.allocated(kBlock, compute);
  timeline.freed(kBlock.begin);
  EXPECT_EQ(timeline.errors(), "");
}

TEST_F(TimelineTest, ABlockOfTheSystemHasNoEarlierUses) {
  writes(compute);
  timeline.freed(kBlock.begin);
  timeline.returned(kBlock.begin);
  timeline.allocated(kBlock, transfers);
  writes(transfers);
  EXPECT_EQ(timeline.errors(), "");
}

}  // namespace
}  // namespace trainer::simulated
