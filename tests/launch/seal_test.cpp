// Secrets, and the authentication of messages between machines.
#include "engine/launch/seal.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "engine/base/errors.h"
#include "engine/launch/secret.h"

namespace trainer::launch {
namespace {

const std::string kNonceA(32, 'a'), kNonceB(32, 'b');

LinkMessage message(int64_t number) {
  return {.op = LinkOp::kCarry, .number = number, .strings = {"x"}};
}

TEST(Secret, TheHashMatchesTheRfc) {
  // RFC 4231, test case 2.
  std::string hex;
  for (const unsigned char byte : keyed_hash("Jefe", "what do ya want for nothing?"))
    hex += fmt::format("{:02x}", byte);
  EXPECT_EQ(hex, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_NE(random_bytes(32), random_bytes(32));
  EXPECT_TRUE(equal_secretly("ab", "ab"));
  EXPECT_FALSE(equal_secretly("ab", "ac"));
  EXPECT_FALSE(equal_secretly("ab", "abc"));
}

TEST(Secret, ComesFromTheEnvironmentOrAFileAndIsNotPassedOn) {
  const auto file = std::filesystem::temp_directory_path() / fmt::format("secret-{}", getpid());
  std::ofstream(file) << "open sesame\n";
  using std::filesystem::perms;
  std::filesystem::permissions(file, perms::owner_read | perms::owner_write | perms::others_read);
  setenv("TRAINER_SECRET_FILE", file.c_str(), 1);
  EXPECT_THROW(take_secret(), ConfigError);  // every user can read it
  std::filesystem::permissions(file, perms::owner_read | perms::owner_write);
  EXPECT_EQ(take_secret(), "");
  setenv("TRAINER_SECRET", "s", 1);
  EXPECT_EQ(take_secret(), "s");
  EXPECT_EQ(std::getenv("TRAINER_SECRET"), nullptr);
  setenv("TRAINER_SECRET_FILE", file.c_str(), 1);
  EXPECT_EQ(take_secret(), "open sesame");
  EXPECT_EQ(std::getenv("TRAINER_SECRET_FILE"), nullptr);
  setenv("TRAINER_SECRET_FILE", file.c_str(), 1);
  setenv("TRAINER_SECRET", "s", 1);
  EXPECT_THROW(take_secret(), ConfigError);
  std::ofstream(file, std::ios::trunc) << "\n";
  setenv("TRAINER_SECRET_FILE", file.c_str(), 1);
  EXPECT_THROW(take_secret(), ConfigError);
  std::filesystem::remove(file);
  setenv("TRAINER_SECRET_FILE", file.c_str(), 1);
  EXPECT_THROW(take_secret(), ConfigError);
}

TEST(Seal, OpensOnlyWithTheSameSecret) {
  Seals ours = make_seals("secret", kNonceA, kNonceB), theirs = make_seals("secret", kNonceA, kNonceB);
  for (int64_t number : {1, 2, 3}) {
    const LinkMessage opened = theirs.by_follower.take_off(ours.by_follower.put_on(message(number)));
    EXPECT_EQ(opened.number, number);
    EXPECT_EQ(opened.strings, std::vector<std::string>{"x"});
  }
  const LinkMessage sealed = make_seals("secret", kNonceA, kNonceB).by_follower.put_on(message(1));
  EXPECT_THROW(make_seals("Secret", kNonceA, kNonceB).by_follower.take_off(sealed), PeerError);
  EXPECT_THROW(make_seals("", kNonceA, kNonceB).by_follower.take_off(sealed), PeerError);
  EXPECT_THROW(make_seals("secret", kNonceB, kNonceB).by_follower.take_off(sealed), PeerError) << "another connection";
  EXPECT_THROW(make_seals("secret", kNonceA, kNonceB).by_leader.take_off(sealed), PeerError) << "sent back";
  EXPECT_THROW(make_seals("secret", kNonceA, kNonceB).by_follower.take_off({.op = LinkOp::kPing}), PeerError) << "none";
}

TEST(Seal, DetectsChangedRepeatedAndDroppedMessages) {
  Seals ours = make_seals("secret", kNonceA, kNonceB);
  const LinkMessage first = ours.by_leader.put_on(message(1)), second = ours.by_leader.put_on(message(2));
  const auto reader = [] { return make_seals("secret", kNonceA, kNonceB).by_leader; };
  for (auto change : {+[](LinkMessage& m) { m.op = LinkOp::kEnd; }, +[](LinkMessage& m) { m.number = 7; },
                      +[](LinkMessage& m) { m.code = 7; }, +[](LinkMessage& m) { m.strings[0] = "y"; },
                      +[](LinkMessage& m) { m.strings.insert(m.strings.begin(), ""); }}) {
    LinkMessage changed = first;
    change(changed);
    EXPECT_THROW(reader().take_off(changed), PeerError);
  }
  Seal repeated = reader();
  repeated.take_off(first);
  EXPECT_THROW(repeated.take_off(first), PeerError);
  EXPECT_THROW(reader().take_off(second), PeerError);
}

}  // namespace
}  // namespace trainer::launch
