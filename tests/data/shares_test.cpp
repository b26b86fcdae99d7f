#include "data/sampler/shares.h"

#include <algorithm>

#include <gtest/gtest.h>

namespace trainer::data {
namespace {

TEST(ShareOf, CoversWithFloorAndCeil) {
  for (int64_t size = 0; size <= 40; ++size) {
    for (int64_t parts = 1; parts <= 9; ++parts) {
      int64_t at = 100;
      for (int64_t i = 0; i < parts; ++i) {
        Range share = share_of({100, 100 + size}, i, parts);
        ASSERT_EQ(share.begin, at);
        at = share.end;
        ASSERT_GE(share.size(), size / parts);
        ASSERT_LE(share.size(), (size + parts - 1) / parts);
      }
      ASSERT_EQ(at, 100 + size);
    }
  }
  EXPECT_EQ(share_of({0, 10}, 0, 3), (Range{0, 4}));
  EXPECT_EQ(share_of({0, 10}, 2, 3), (Range{7, 10}));
}

TEST(MicroBatches, CoverTheUpdateWithEqualCountsOnAllRanks) {
  for (int64_t size = 0; size <= 30; ++size) {
    for (int64_t ranks = 1; ranks <= 5; ++ranks) {
      for (int64_t per_device = 1; per_device <= 6; ++per_device) {
        int64_t at = 7;
        for (int64_t rank = 0; rank < ranks; ++rank) {
          std::vector<Range> batches = micro_batches({7, 7 + size}, rank, ranks, per_device);
          ASSERT_EQ(static_cast<int64_t>(batches.size()), micro_batch_count(size, ranks, per_device));
          for (Range batch : batches) {
            ASSERT_EQ(batch.begin, at);
            ASSERT_LE(batch.size(), per_device);
            at = batch.end;
          }
        }
        ASSERT_EQ(at, 7 + size);
      }
    }
  }
}

TEST(MicroBatches, FollowTheConfiguredAccumulation) {
  // 2 ranks, 3 samples per device, accumulation 4: 24 samples per update, 12 per rank.
  std::vector<Range> batches = micro_batches({24, 48}, 1, 2, 3);
  EXPECT_EQ(batches, (std::vector<Range>{{36, 39}, {39, 42}, {42, 45}, {45, 48}}));
  // The last 3 samples of an epoch over 2 ranks: one micro-batch each.
  EXPECT_EQ(micro_batches({48, 51}, 0, 2, 3), (std::vector<Range>{{48, 50}}));
  EXPECT_EQ(micro_batches({48, 51}, 1, 2, 3), (std::vector<Range>{{50, 51}}));
  // The last sample of an epoch over 3 ranks: all run one micro-batch, which is empty on two of them.
  EXPECT_EQ(micro_batches({48, 49}, 2, 3, 3), (std::vector<Range>{{49, 49}}));
}

TEST(Updates, SplitEpochsWithASmallerLastUpdate) {
  Updates updates(10, 4);
  EXPECT_EQ(updates.per_epoch(), 3);
  EXPECT_EQ(updates.at(0), (Range{0, 4}));
  EXPECT_EQ(updates.at(2), (Range{8, 10}));
  EXPECT_EQ(updates.at(3), (Range{10, 14}));
  EXPECT_EQ(updates.at(5), (Range{18, 20}));
  EXPECT_EQ(updates.total(2.0), 6);
  EXPECT_EQ(updates.total(1.5), 5);
  EXPECT_EQ(updates.total(0.1), 1);
  EXPECT_DOUBLE_EQ(updates.epochs_at(15), 1.5);
}

TEST(Updates, CursorAndIndexAgree) {
  for (int64_t samples = 1; samples <= 25; ++samples) {
    for (int64_t batch = 1; batch <= 30; ++batch) {
      Updates updates(samples, batch);
      int64_t cursor = 0, total = updates.total(3.0);
      ASSERT_EQ(total, 3 * updates.per_epoch());
      for (int64_t k = 0; k < total; ++k) {
        ASSERT_EQ(updates.done_at(cursor), k);
        ASSERT_EQ(updates.left(cursor, 3.0), total - k);
        Range update = updates.next(cursor);
        ASSERT_EQ(update, updates.at(k));
        ASSERT_FALSE(update.empty());
        ASSERT_EQ(update.begin / samples, (update.end - 1) / samples) << "an update crosses the end of an epoch";
        cursor = update.end;
      }
      ASSERT_EQ(cursor, 3 * samples);
      ASSERT_EQ(updates.left(cursor, 3.0), 0);
    }
  }
}

TEST(Updates, ContinueMidEpochWithAnotherBatchSize) {
  Updates updates(10, 4);
  for (int64_t cursor = 0; cursor <= 30; ++cursor) {
    int64_t to_end = 0;  // 2.5 epochs are 8 updates: two epochs, then 4 and 4 samples
    for (int64_t p = cursor; p < 28; p = updates.next(p).end) ++to_end;
    EXPECT_EQ(updates.left(cursor, 2.5), to_end) << cursor;
  }
  EXPECT_EQ(updates.next(9), (Range{9, 10}));
  EXPECT_EQ(updates.next(3), (Range{3, 7}));
}

TEST(Updates, RoundingErrorsAddNoUpdate) {
  EXPECT_EQ(Updates(10, 1).total(1.1), 11);  // 1.1 * 10 is 11.000000000000002
  EXPECT_EQ(Updates(10, 1).total(1.11), 12);
}

}  // namespace
}  // namespace trainer::data
