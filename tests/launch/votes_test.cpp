// Which machines may continue a run that share no folder, and what each of them remembers.
#include "engine/launch/votes.h"

#include <fstream>

#include <gtest/gtest.h>

#include "engine/base/errors.h"
#include "tests/support/temporary_folder.h"

namespace trainer::launch {
namespace {

using testing::TemporaryFolder;

Membership generation(int64_t epoch, int leader, const std::set<int>& machines) {
  Membership membership{.epoch = epoch, .leader = leader, .hosts = {}};
  for (const int machine : machines) membership.hosts[machine] = "10.0.0.1";
  return membership;
}

VoteRecord knowing(const Membership& agreed, const std::vector<Membership>& voted = {}) {
  VoteRecord record;
  record.promised = voted.empty() ? agreed.epoch : voted.back().epoch;
  record.agreed = agreed;
  record.voted = voted;
  return record;
}

TEST(MembershipTest, MoreThanHalfAreAMajorityAndHalfOnlyWithTheLeader) {
  const Membership three = generation(1, 0, {0, 1, 2}), two = generation(1, 1, {0, 1});
  EXPECT_TRUE(three.has_majority({1, 2}));
  EXPECT_TRUE(three.has_majority({0, 2, 7}));
  EXPECT_FALSE(three.has_majority({0}));
  EXPECT_FALSE(three.has_majority({0, 5, 6, 7}));
  EXPECT_TRUE(two.has_majority({1}));
  EXPECT_FALSE(two.has_majority({0}));
  EXPECT_TRUE(Membership{}.has_majority({0})) << "machine 0 begins a run alone";
  EXPECT_FALSE(Membership{}.has_majority({1, 2}));
}

TEST(MembershipTest, AnyTwoMajoritiesHaveAMachineInCommon) {
  for (const int machines : {1, 2, 3, 4, 5}) {
    Membership all{.epoch = 1, .leader = machines / 2, .hosts = {}};
    for (int machine = 0; machine < machines; ++machine) all.hosts[machine] = "";
    for (int set = 0; set < 1 << machines; ++set) {
      std::set<int> some, others;
      for (int machine = 0; machine < machines; ++machine) (set >> machine & 1 ? some : others).insert(machine);
      EXPECT_NE(all.has_majority(some), all.has_majority(others)) << machines << " " << set;
    }
  }
}

TEST(MembershipTest, GenerationsNeedAMajorityOfTheLastAgreedOne) {
  const Membership all = generation(3, 0, {0, 1, 2}), pair = generation(4, 1, {1, 2});
  EXPECT_EQ(why_no_majority({{0, {}}}), "");
  EXPECT_EQ(why_no_majority({{1, knowing(all)}, {2, knowing(all)}}), "");
  EXPECT_EQ(why_no_majority({{1, knowing(all)}, {3, {}}}),
            "machines 0, 1, 2 trained last (leader epoch 3), and no majority of them is connected: 1 of 3");
  EXPECT_EQ(
      why_no_majority({{0, knowing(all)}, {2, knowing(pair)}}),
      "machines 1, 2 trained last (leader epoch 4), and no majority of them is connected: 1 of 2; half of them are a "
      "majority only with machine 1, the leader");
  EXPECT_EQ(why_no_majority({{0, knowing(all)}, {1, knowing(pair)}}), "");
}

TEST(MembershipTest, AMachineThatLostItsDiskDoesNotCount) {
  const Membership all = generation(3, 0, {0, 1, 2});
  EXPECT_NE(why_no_majority({{0, {}}, {1, knowing(all)}}), "");
  EXPECT_EQ(why_no_majority({{0, {}}, {1, knowing(all)}, {2, knowing(all)}}), "");
  EXPECT_EQ(why_no_majority({{0, {}}, {1, knowing({}, {all})}, {2, knowing(all)}}), "")
      << "one has not heard that it began";
}

TEST(MembershipTest, GenerationsThatMayHaveBegunCount) {
  const Membership all = generation(3, 0, {0, 1, 2}), pair = generation(4, 0, {0, 1});
  EXPECT_NE(why_no_majority({{1, knowing(all, {pair})}, {2, knowing(all)}}), "") << "machine 0 may go on alone";
  EXPECT_EQ(why_no_majority({{0, knowing(pair)}}), "");
  EXPECT_EQ(why_no_majority({{0, knowing(all, {pair})}, {2, knowing(all)}}), "");
  EXPECT_EQ(why_no_majority({{1, knowing(all, {pair})}, {2, knowing(generation(5, 2, {0, 2}))}}), "")
      << "a later one has begun";
}

TEST(VotesTest, RoundTripAsText) {
  VoteRecord record = knowing(generation(4, 1, {1, 2}), {generation(9, 2, {2}), generation(7, 0, {0, 3})});
  record.agreed.hosts[2] = "fe80::1%eth0";
  record.voted[1].hosts[0] = "";
  EXPECT_EQ(to_text(vote_record_from(to_text(record))), to_text(record));
  EXPECT_EQ(vote_record_from(to_text(record)).voted[1].hosts, record.voted[1].hosts);
  EXPECT_EQ(to_text(vote_record_from(to_text(VoteRecord{}))), to_text(VoteRecord{}));
  for (const char* text : {"", "x", "1", "1\n", "-1\n0 0 0=\n", "1\n0 0\n", "1\n0 1 0=\n", "1\n0 0 0=a 0=b\n",
                           "1\n0 0 0=a x\n", "1\n0 0 0:a\n", "1 2\n0 0 0=\n", "1\n0 0 -1=a\n"})
    EXPECT_THROW(vote_record_from(text), PeerError) << text;
}

TEST(VotesTest, AreNeverGivenTwiceInAnEpochAlsoAfterARestart) {
  const TemporaryFolder folder;
  {
    Votes votes(folder.path());
    EXPECT_TRUE(votes.vote(generation(2, 1, {1, 2})));
    EXPECT_FALSE(votes.vote(generation(2, 0, {0, 2}))) << "of this epoch";
    EXPECT_FALSE(votes.vote(generation(1, 0, {0, 2}))) << "of an earlier one";
  }
  Votes votes(folder.path());
  EXPECT_EQ(votes.record().promised, 2);
  EXPECT_FALSE(votes.vote(generation(2, 0, {0, 2})));
  EXPECT_TRUE(votes.record().knows(2));
  EXPECT_EQ(votes.record().agreed.epoch, 0);
  EXPECT_TRUE(votes.vote(generation(5, 1, {1, 2})));
  votes.begin(generation(5, 1, {1, 2}));
  EXPECT_EQ(Votes(folder.path()).record().agreed.epoch, 5);
  EXPECT_TRUE(Votes(folder.path()).record().voted.empty());
  votes.forget();
  EXPECT_EQ(Votes(folder.path()).record().promised, 0);
}

TEST(VotesTest, OfADamagedRecordAreRefused) {
  const TemporaryFolder folder;
  std::ofstream(folder.path() / ".votes") << "1\n0 0 0";
  EXPECT_THROW(Votes{folder.path()}, InputError);
}

TEST(VotesTest, OfARecordThatCantBeReadAreNotForgotten) {
  const TemporaryFolder folder;
  std::filesystem::create_symlink(".votes", folder.path() / ".votes");
  EXPECT_THROW(Votes{folder.path()}, std::filesystem::filesystem_error);
}

}  // namespace
}  // namespace trainer::launch
