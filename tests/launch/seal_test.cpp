// Secrets, and the authentication of messages between machines.
#include "engine/launch/seal.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "engine/base/errors.h"
#include "engine/launch/meeting_key.h"
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

TEST(Secret, AFileThatTheGroupCanReadIsRefused) {
  const auto file = std::filesystem::temp_directory_path() / fmt::format("group-secret-{}", getpid());
  std::ofstream(file) << "open sesame\n";
  using std::filesystem::perms;
  const auto take = [&](perms mode) {
    std::filesystem::permissions(file, mode);
    setenv("TRAINER_SECRET_FILE", file.c_str(), 1);
    return take_secret();
  };
  const perms own = perms::owner_read | perms::owner_write;
  constexpr gid_t kSomeGroup = 100;
  if (chown(file.c_str(), getuid(), getuid() == 0 ? kSomeGroup : getgid()) == 0 && (getuid() == 0 || getgid() != 0)) {
    EXPECT_THROW(take(own | perms::group_read), ConfigError);
    EXPECT_THROW(take(own | perms::group_write), ConfigError);
  }
  EXPECT_EQ(take(own), "open sesame");
  std::filesystem::remove(file);
}

TEST(Secret, NoneIsWantedInWords) {
  EXPECT_FALSE(is_without_secret());
  setenv("TRAINER_SECRET_FILE", "none", 1);
  EXPECT_TRUE(is_without_secret());
  EXPECT_EQ(take_key(), "");
  EXPECT_EQ(std::getenv("TRAINER_SECRET_FILE"), nullptr);
  setenv("TRAINER_SECRET", "s", 1);
  EXPECT_EQ(take_key().size(), 32U);
  EXPECT_THROW(refuse_open_address("203.0.113.1", 1), ConfigError);
  EXPECT_NO_THROW(refuse_open_address("127.0.0.1", 1)) << "only this machine's users can reach it";
}

/// Runs in a process of its own, which has the secret in its first environment.
TEST(Secret, DISABLED_IsClearedFromTheFirstEnvironment) {
  ASSERT_EQ(take_secret(), "open sesame");
  std::ifstream file("/proc/self/environ");
  const std::string shown(std::istreambuf_iterator<char>(file), {});
  EXPECT_NE(shown.find("OTHER=kept"), std::string::npos);
  EXPECT_EQ(shown.find("sesame"), std::string::npos) << "every process of this user can read it";
}

TEST(Secret, IsClearedFromTheFirstEnvironment) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const char* const words[] = {"launch_test", "--gtest_also_run_disabled_tests",
                                 "--gtest_filter=Secret.DISABLED_IsClearedFromTheFirstEnvironment", nullptr};
    const char* const variables[] = {"TRAINER_SECRET=open sesame", "OTHER=kept", nullptr};
    execve("/proc/self/exe", const_cast<char**>(words), const_cast<char**>(variables));
    _exit(1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST(Secret, IsStretchedByScrypt) {
  std::string hex;
  for (const unsigned char byte : stretched("open sesame", kProtocol)) hex += fmt::format("{:02x}", byte);
  // Python: hashlib.scrypt(b"open sesame", salt=b"trainer machines 6", n=2**15, r=8, p=1, maxmem=2**26, dklen=32).hex()
  EXPECT_EQ(hex, "bad9cf35f0b0d976f75ea8593f2d9d391c719ab54b9f3ce958aae00e4fd9c61f");
  EXPECT_EQ(stretched("", kProtocol), "");
}

TEST(Seal, OpensOnlyWithTheSameSecret) {
  Seals ours = make_seals("secret", kNonceA, kNonceB, 1), theirs = make_seals("secret", kNonceA, kNonceB, 1);
  for (int64_t number : {1, 2, 3}) {
    const LinkMessage opened = theirs.by_follower.take_off(ours.by_follower.put_on(message(number)));
    EXPECT_EQ(opened.number, number);
    EXPECT_EQ(opened.strings, std::vector<std::string>{"x"});
  }
  const LinkMessage sealed = make_seals("secret", kNonceA, kNonceB, 1).by_follower.put_on(message(1));
  EXPECT_THROW(make_seals("Secret", kNonceA, kNonceB, 1).by_follower.take_off(sealed), PeerError);
  EXPECT_THROW(make_seals("", kNonceA, kNonceB, 1).by_follower.take_off(sealed), PeerError);
  EXPECT_THROW(make_seals("secret", kNonceB, kNonceB, 1).by_follower.take_off(sealed), PeerError)
      << "another connection";
  EXPECT_THROW(make_seals("secret", kNonceA, kNonceB, 1).by_leader.take_off(sealed), PeerError) << "sent back";
  EXPECT_THROW(make_seals("secret", kNonceA, kNonceB, 1).by_follower.take_off({.op = LinkOp::kPing}), PeerError)
      << "none";
}

TEST(Seal, OfAnOlderLeaderEpochIsInvalid) {
  const LinkMessage sealed = make_seals("secret", kNonceA, kNonceB, 1).by_leader.put_on(message(1));
  EXPECT_THROW(make_seals("secret", kNonceA, kNonceB, 2).by_leader.take_off(sealed), PeerError);
  EXPECT_EQ(make_seals("secret", kNonceA, kNonceB, 1).by_leader.take_off(sealed).number, 1);
}

TEST(Seal, HidesContentsOfFiles) {
  Seals ours = make_seals("secret", kNonceA, kNonceB, 1), theirs = make_seals("secret", kNonceA, kNonceB, 1);
  const std::string text(1000, 'x');
  const std::string first = ours.by_leader.hide(text), second = ours.by_leader.hide(text);
  EXPECT_EQ(first.find("xx"), std::string::npos);
  EXPECT_NE(first, second);
  EXPECT_NE(first, ours.by_follower.hide(text));
  EXPECT_EQ(theirs.by_leader.hide(first), text);
  EXPECT_EQ(theirs.by_leader.hide(second), text);
  EXPECT_EQ(ours.by_leader.hide(""), "");
}

TEST(Seal, DetectsChangedRepeatedAndDroppedMessages) {
  Seals ours = make_seals("secret", kNonceA, kNonceB, 1);
  const LinkMessage first = ours.by_leader.put_on(message(1)), second = ours.by_leader.put_on(message(2));
  const auto reader = [] { return make_seals("secret", kNonceA, kNonceB, 1).by_leader; };
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
