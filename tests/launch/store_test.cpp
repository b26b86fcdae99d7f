#include "engine/launch/store.h"

#include <gtest/gtest.h>

namespace trainer::launch {
namespace {

using std::chrono::milliseconds;

/// A store with a simulated clock.
struct StoreTest : ::testing::Test {
  std::vector<Store::Answer> ask(int rank, LinkMessage request) {
    std::vector<Store::Answer> answers;
    store.handle(rank, request, now, answers);
    return answers;
  }

  /// The only reply, to a request that is answered at once.
  LinkMessage reply(LinkMessage request) {
    auto answers = ask(0, request);
    EXPECT_EQ(answers.size(), 1u);
    return answers.empty() ? LinkMessage{} : answers[0].message;
  }

  Store store;
  Clock::time_point now = Clock::now();
};

TEST_F(StoreTest, KeepsValues) {
  EXPECT_EQ(reply({.op = LinkOp::kSet, .id = 5, .strings = {"a", "1"}}).id, 5u);
  EXPECT_EQ(reply({.op = LinkOp::kGet, .strings = {"a"}}).strings.at(0), "1");
  EXPECT_EQ(reply({.op = LinkOp::kCheck, .strings = {"a"}}).number, 1);
  EXPECT_EQ(reply({.op = LinkOp::kCheck, .strings = {"a", "b"}}).number, 0);
  EXPECT_EQ(reply({.op = LinkOp::kNumKeys}).number, 1);
  EXPECT_EQ(reply({.op = LinkOp::kErase, .strings = {"a"}}).number, 1);
  EXPECT_EQ(reply({.op = LinkOp::kErase, .strings = {"a"}}).number, 0);
  EXPECT_EQ(reply({.op = LinkOp::kNumKeys}).number, 0);
}

TEST_F(StoreTest, AddsToNumbers) {
  EXPECT_EQ(reply({.op = LinkOp::kAdd, .number = 5, .strings = {"n"}}).number, 5);
  EXPECT_EQ(reply({.op = LinkOp::kAdd, .number = -7, .strings = {"n"}}).number, -2);
  EXPECT_EQ(reply({.op = LinkOp::kGet, .strings = {"n"}}).strings.at(0), "-2");
  reply({.op = LinkOp::kSet, .strings = {"n", "2 apples"}});
  EXPECT_EQ(reply({.op = LinkOp::kAdd, .number = 1, .strings = {"n"}}).code, kLinkRefused);
  reply({.op = LinkOp::kSet, .strings = {"n", std::to_string(INT64_MAX)}});
  EXPECT_EQ(reply({.op = LinkOp::kAdd, .number = 1, .strings = {"n"}}).code, kLinkRefused);
}

TEST_F(StoreTest, ComparesAndSets) {
  auto compare_set = [&](const char* expected, const char* desired) {
    return reply({.op = LinkOp::kCompareSet, .strings = {"a", expected, desired}}).strings.at(0);
  };
  EXPECT_EQ(compare_set("x", "1"), "x");  // absent, and remains absent
  EXPECT_EQ(reply({.op = LinkOp::kNumKeys}).number, 0);
  EXPECT_EQ(compare_set("", "1"), "1");
  EXPECT_EQ(compare_set("x", "2"), "1");
  EXPECT_EQ(compare_set("1", "2"), "2");
}

TEST_F(StoreTest, AWaitEndsWhenItsLastKeyAppears) {
  EXPECT_TRUE(ask(1, {.op = LinkOp::kWait, .id = 10, .strings = {"a", "b"}}).empty());
  EXPECT_TRUE(ask(2, {.op = LinkOp::kGet, .id = 20, .strings = {"b"}}).empty());
  EXPECT_EQ(ask(0, {.op = LinkOp::kSet, .strings = {"a", "1"}}).size(), 1u);
  auto answers = ask(0, {.op = LinkOp::kAdd, .id = 3, .number = 4, .strings = {"b"}});
  ASSERT_EQ(answers.size(), 3u);
  EXPECT_EQ(answers[0].rank, 0);
  EXPECT_EQ(answers[1].rank, 1);
  EXPECT_EQ(answers[1].message.id, 10u);
  EXPECT_EQ(answers[2].rank, 2);
  EXPECT_EQ(answers[2].message.id, 20u);
  EXPECT_EQ(answers[2].message.strings.at(0), "4");
  EXPECT_EQ(ask(0, {.op = LinkOp::kSet, .strings = {"b", "1"}}).size(), 1u);  // no rank waits any more
}

TEST_F(StoreTest, AWaitTimesOut) {
  EXPECT_FALSE(store.next_deadline());
  ask(1, {.op = LinkOp::kWait, .id = 10, .number = 50, .strings = {"a", "late"}});
  ask(2, {.op = LinkOp::kGet, .id = 20, .number = 0, .strings = {"late"}});  // as long as it takes
  ask(0, {.op = LinkOp::kSet, .strings = {"a", "1"}});
  EXPECT_EQ(store.next_deadline(), now + milliseconds(50));
  std::vector<Store::Answer> answers;
  store.expire(now + milliseconds(49), answers);
  EXPECT_TRUE(answers.empty());
  store.expire(now + milliseconds(50), answers);
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers[0].message.id, 10u);
  EXPECT_EQ(answers[0].message.code, kLinkTimedOut);
  EXPECT_NE(answers[0].message.strings.at(0).find("'late'"), std::string::npos);
  EXPECT_EQ(ask(0, {.op = LinkOp::kSet, .strings = {"late", "1"}}).size(), 2u);  // rank 2 still waits
}

TEST_F(StoreTest, ADeadRankIsNotAnswered) {
  ask(1, {.op = LinkOp::kGet, .strings = {"a"}});
  store.forget(1);
  EXPECT_EQ(ask(0, {.op = LinkOp::kSet, .strings = {"a", "1"}}).size(), 1u);
}

TEST_F(StoreTest, AMalformedRequestIsRefused) {
  EXPECT_EQ(reply({.op = LinkOp::kSet, .strings = {"a"}}).code, kLinkRefused);
  EXPECT_EQ(reply({.op = LinkOp::kGet}).code, kLinkRefused);
  EXPECT_EQ(reply({.op = LinkOp::kReply}).code, kLinkRefused);
}

}  // namespace
}  // namespace trainer::launch
