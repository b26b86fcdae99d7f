// What all ranks know after an update.
#include "engine/train/step_agreement.h"

#include <gtest/gtest.h>

#include "tests/support/ranks.h"

namespace trainer::train {
namespace {

TEST(StepAgreement, SumsLossesAndHearsEveryRank) {
  testing::run_ranks(3, [](dist::Comm& comm) {
    StepReport mine;
    mine.loss = 0.5 + comm.rank();
    mine.save = comm.rank() == 2;
    mine.save_ready = comm.rank() != 1;
    mine.work_seconds = 10 * comm.rank();
    const StepAgreement agreed = agree(mine, comm);
    EXPECT_EQ(agreed.loss, 4.5);
    EXPECT_TRUE(agreed.save);
    EXPECT_FALSE(agreed.stop);
    EXPECT_FALSE(agreed.yield);
    EXPECT_FALSE(agreed.all_save_ready);
    EXPECT_EQ(agreed.work_seconds, (std::vector<double>{0, 10, 20}));
  });
}

TEST(StepAgreement, DistinguishesWhatRanksWereAskedTo) {
  testing::run_ranks(2, [](dist::Comm& comm) {
    const bool first = comm.rank() == 0;
    StepReport mine;
    mine.stop = first;
    mine.save_ready = true;
    const StepAgreement stopping = agree(mine, comm);
    EXPECT_TRUE(stopping.stop && !stopping.save && !stopping.yield && stopping.all_save_ready);
    mine.stop = false;
    mine.yield = !first;
    const StepAgreement yielding = agree(mine, comm);
    EXPECT_TRUE(!yielding.stop && !yielding.save && yielding.yield && yielding.all_save_ready);
  });
}

}  // namespace
}  // namespace trainer::train
