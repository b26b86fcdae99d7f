#include "engine/base/rank_board.h"

#include <gtest/gtest.h>

namespace trainer {
namespace {

struct Pair {
  uint64_t numbers[40];  // all equal in a consistent value
};

TEST(Published, ZeroedMemoryHoldsZeroes) {
  const Published<Pair> published;
  ASSERT_TRUE(published.load());
  EXPECT_EQ(published.load()->numbers[39], 0u);
}

TEST(Published, TheReaderNeverSeesHalfAValue) {
  Published<Pair> published;
  std::atomic<bool> ends{false};
  std::thread writer([&] {
    for (uint64_t i = 0; !ends; ++i) {
      Pair pair;
      std::fill(std::begin(pair.numbers), std::end(pair.numbers), i);
      published.store(pair);
    }
  });
  uint64_t whole = 0, last = 0;
  for (int i = 0; i < 100'000; ++i) {
    const auto pair = published.load();
    if (!pair) continue;
    ++whole;
    EXPECT_EQ(std::count(std::begin(pair->numbers), std::end(pair->numbers), pair->numbers[0]), 40);
    EXPECT_LE(last, pair->numbers[0]);
    last = pair->numbers[0];
  }
  ends = true;
  writer.join();
  EXPECT_GT(whole, 0u);
}

class Board : public ::testing::Test {
 protected:
  Collective last(int group) const {
    const auto& memory = memory_->groups[static_cast<size_t>(group)];
    return *memory.recent[memory.last % BoardMemory::kRecent].load();
  }

  std::shared_ptr<BoardMemory> memory_ = std::make_shared<BoardMemory>();
  RankBoard board_{memory_};
};

TEST_F(Board, Beats) {
  const uint64_t before = memory_->beats;
  while (memory_->beats == before) std::this_thread::yield();
  EXPECT_GT(memory_->beats, before);
}

TEST_F(Board, CallsAreNumberedPerGroup) {
  const int all = board_.add_group("among all ranks", {0, 1}), pair = board_.add_group("among two", {0, 70});
  EXPECT_EQ(board_.begin(all, CollectiveKind::kSum, 8, "Float", "block.0"), 1u);
  EXPECT_EQ(board_.begin(pair, CollectiveKind::kSum, 8, "Float", "block.0"), 1u);
  EXPECT_EQ(board_.begin(all, CollectiveKind::kAllGather, 9, "BFloat16", "block.1"), 2u);
  EXPECT_EQ(last(all).dtype.view(), "BFloat16");
  EXPECT_EQ(last(all).what.view(), "block.1");
  EXPECT_TRUE(memory_->groups[1].group.load()->has_member(70));
  EXPECT_FALSE(memory_->groups[1].group.load()->has_member(6));
}

TEST_F(Board, AWaitEndsWithItsOwnCallOnly) {
  const int all = board_.add_group("among all ranks", {0, 1});
  const uint64_t first = board_.begin(all, CollectiveKind::kAllGather, 8, "Float", "");
  const uint64_t second = board_.begin(all, CollectiveKind::kAllGather, 8, "Float", "");
  board_.wait(all, second);
  board_.end(all, first);
  EXPECT_EQ(memory_->wait.load()->number, second);
  EXPECT_EQ(memory_->groups[0].done, first);
  board_.end(all, second);
  EXPECT_EQ(memory_->wait.load()->number, 0u);
  EXPECT_EQ(memory_->groups[0].done, second);
}

TEST_F(Board, SignaturesStayDifferentOnceOneCallDiffers) {
  const int a = board_.add_group("a", {0, 1}), b = board_.add_group("b", {0, 1}), c = board_.add_group("c", {0, 1});
  for (const int group : {a, b, c}) board_.begin(group, CollectiveKind::kSum, 8, "Float", "block.0");
  EXPECT_EQ(last(a).signature, last(b).signature);
  board_.begin(a, CollectiveKind::kSum, 8, "Float", "block.1");
  board_.begin(b, CollectiveKind::kSum, 8, "Float", "block.1");
  board_.begin(c, CollectiveKind::kSum, 8, "Float", "block.2");
  EXPECT_EQ(last(a).signature, last(b).signature);
  EXPECT_NE(last(a).signature, last(c).signature);
  for (const int group : {a, b, c}) board_.begin(group, CollectiveKind::kSum, 8, "Float", "block.0");
  EXPECT_EQ(last(a).signature, last(b).signature);
  EXPECT_NE(last(a).signature, last(c).signature);
}

TEST_F(Board, TheEndsOfATransferMayBeInDifferentUnits) {
  const int a = board_.add_group("a", {0, 1}), b = board_.add_group("b", {0, 1});
  board_.begin(a, CollectiveKind::kTransfer, 8, "Float", "stage 0");
  board_.begin(b, CollectiveKind::kTransfer, 8, "Float", "stage 1");
  EXPECT_EQ(last(a).signature, last(b).signature);
}

TEST_F(Board, LongNamesAreTruncatedAndExcessGroupsAreHidden) {
  const int all = board_.add_group(std::string(500, 'g'), {0});
  board_.begin(all, CollectiveKind::kSum, 8, "Float", std::string(500, 'u'));
  EXPECT_EQ(last(all).what.view(), std::string(80, 'u'));
  EXPECT_FALSE(memory_->hides_waits);
  int more = 0;
  while (more >= 0) more = board_.add_group("more", {0});
  EXPECT_EQ(board_.begin(more, CollectiveKind::kSum, 8, "Float", ""), 0u);
  board_.wait(more, 0);
  board_.end(more, 0);
  EXPECT_TRUE(memory_->hides_waits);
}

}  // namespace
}  // namespace trainer
