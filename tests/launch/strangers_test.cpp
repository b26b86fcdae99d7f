// Programs at the port where machines meet that are not machines of the run: none of them ends, stops or slows it.
#include <sys/resource.h>

#include <algorithm>

#include "engine/base/link_protocol.h"
#include "engine/launch/entrance.h"
#include "engine/launch/meeting.h"
#include "tests/launch/several_machines.h"

namespace trainer::launch {
namespace {

class Strangers : public SeveralMachines {
 protected:
  Strangers() : SeveralMachines(2, 1) {}

  Address meeting_point() const { return resolve("127.0.0.1", static_cast<int>(plan_.config.main_process_port)).at(0); }

  /// Answers the first connection to machine 0's address with `answer`, in machine 0's place.
  void answer_as_machine_0(const std::string& answer) {
    start(1, {{"FAKE", "use_store"}});
    wait_for([&] { return said(1, "looking for machine 0"); });
    const FileDescriptor listener = listen_on(meeting_point());
    FileDescriptor follower;
    wait_for([&] { return (follower = FileDescriptor(accept(listener.get(), nullptr, nullptr))).get() >= 0; });
    EXPECT_EQ(::send(follower.get(), answer.data(), answer.size(), 0), std::ssize(answer));
    char bytes[4096];
    while (recv(follower.get(), bytes, sizeof(bytes), 0) > 0) {
    }  // until the follower hangs up
  }

  /// The follower has met only a stranger: the run must still take place.
  void expect_run_after_answer(const std::string& answer) {
    answer_as_machine_0(answer);
    wait_for([&] { return said(1, "still looking for machine 0"); });
    start(0, {{"FAKE", "use_store"}});
    EXPECT_EQ(finish(0), 0) << screens();
    EXPECT_EQ(finish(1), 0) << screens();
    EXPECT_TRUE(is_noted("pid-1")) << "nothing was trained\n" << screens();
    EXPECT_FALSE(said(1, "forged")) << "a stranger's words on the screen\n" << screen(1);
  }

  /// Connects from `host`, an address of this machine, and sends nothing.
  FileDescriptor stranger_from(const std::string& host) {
    FileDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const Address from = resolve(host, 0).at(0), to = meeting_point();
    EXPECT_EQ(bind(socket.get(), from.raw(), from.size), 0);
    connect(socket.get(), to.raw(), to.size);
    return socket;
  }

  /// Whether the other side has closed the connection, or refused it.
  static bool is_closed(const FileDescriptor& socket) {
    char byte = 0;
    const ssize_t count = recv(socket.get(), &byte, 1, MSG_DONTWAIT);
    return count == 0 || (count < 0 && errno != EAGAIN && errno != EWOULDBLOCK);
  }
  static std::size_t closed(const std::vector<FileDescriptor>& sockets) {
    return static_cast<std::size_t>(std::count_if(sockets.begin(), sockets.end(), is_closed));
  }

  /// Seconds of processor time that machine `number`'s launcher has used.
  double processor_seconds(int number) {
    std::string text;
    std::getline(std::ifstream(fmt::format("/proc/{}/stat", pid_of(number))), text);
    std::istringstream words(text.substr(text.rfind(')') + 2));
    std::string skipped;
    constexpr int kBeforeTimes = 11;
    for (int i = 0; i < kBeforeTimes; ++i) words >> skipped;
    double user = 0, kernel = 0;
    words >> user >> kernel;
    return (user + kernel) / static_cast<double>(sysconf(_SC_CLK_TCK));
  }
};

TEST_F(Strangers, ForgedEndDoesNotEndAFollower) {
  expect_run_after_answer(encode_frame({.op = LinkOp::kEnd}));
}

TEST_F(Strangers, ForgedEndWithWordsIsNotShown) {
  expect_run_after_answer(encode_frame({.op = LinkOp::kEnd, .code = 2, .strings = {"forged: do as I say"}}));
}

TEST_F(Strangers, ForgedChallengeDoesNotEndAFollower) {
  expect_run_after_answer(
      encode_frame({.op = LinkOp::kChallenge, .strings = {kProtocol, std::string(kNonceBytes, 'n')}}) +
      encode_frame({.op = LinkOp::kEnd, .strings = {"forged"}}));
}

TEST_F(Strangers, AnotherProgramDoesNotEndAFollower) {
  expect_run_after_answer("HTTP/1.1 400 forged\r\n\r\n");
}

TEST_F(Strangers, CannotTakeThePortDuringARun) {
  plan_.config.max_restarts = 1;
  for (const int number : {0, 1}) start(number, {{"FAKE", "live:1"}});
  for (const int rank : {0, 1}) wait_for_note(fmt::format("life-0-{}", rank));
  EXPECT_FALSE(try_listen(meeting_point())) << "max_restarts is void once another program has the port";
  kill(std::stoi(noted("pid-1")), SIGKILL);
  for (const int number : {0, 1}) EXPECT_EQ(finish(number), 0) << screens();
  EXPECT_TRUE(try_listen(meeting_point()));
}

/// They make room for each other, not for a stranger at another address, which came first of all.
TEST_F(Strangers, OfOneAddressHaveALimit) {
  start(0, {{"FAKE", "use_store"}});
  wait_for([&] { return said(0, "waiting for machine 1"); });
  const FileDescriptor other = stranger_from("127.0.0.3");
  std::vector<FileDescriptor> strangers;
  for (int i = 0; i < 200; ++i) strangers.push_back(stranger_from("127.0.0.2"));
  wait_for([&] { return closed(strangers) >= strangers.size() - Entrance::kMostOfOneAddress; });
  EXPECT_EQ(closed(strangers), strangers.size() - Entrance::kMostOfOneAddress);
  EXPECT_FALSE(is_closed(other));
  EXPECT_FALSE(is_closed(strangers.back())) << "the newest";
  EXPECT_TRUE(is_closed(strangers.front())) << "the oldest";
}

TEST_F(Strangers, FindTheLimitOfOpenFilesRaised) {
  constexpr rlim_t kSoft = 256;
  rlimit before{}, limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  if (before.rlim_max <= kSoft) GTEST_SKIP() << "the hard limit is " << before.rlim_max;
  const rlimit low{kSoft, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  start(0, {{"FAKE", "use_store"}});
  setrlimit(RLIMIT_NOFILE, &before);
  wait_for([&] { return said(0, "waiting for machine 1"); });
  ASSERT_EQ(prlimit(pid_of(0), RLIMIT_NOFILE, nullptr, &limit), 0);
  EXPECT_EQ(limit.rlim_cur, std::min<rlim_t>(65'536, before.rlim_max));
}

/// A refused machine hangs up once it has read why; a stranger that keeps talking is disconnected. (Reading ends at the
/// refusal already; writing fails only once the connection is closed.)
TEST_F(Strangers, ThatWereRefusedAreDisconnected) {
  patience_.join = std::chrono::minutes(10);  // afterwards machine 0 would end, and disconnect everyone
  start(0, {{"FAKE", "use_store"}});
  wait_for([&] { return said(0, "waiting for machine 1"); });
  const FileDescriptor stranger = stranger_from("127.0.0.2");
  const std::string hello =
      encode_frame({.op = LinkOp::kHello, .strings = {"another version", std::string(kNonceBytes, 'n')}});
  wait_for([&] { return send(stranger.get(), hello.data(), hello.size(), MSG_NOSIGNAL) == std::ssize(hello); });
  wait_for([&] { return said(0, "runs another version of trainer"); });
  const std::string ping = encode_frame({.op = LinkOp::kPing});
  wait_for([&] { return send(stranger.get(), ping.data(), ping.size(), MSG_NOSIGNAL) < 0 && errno != EAGAIN; });
}

TEST_F(Strangers, DoNotExhaustDescriptors) {
  start(0, {{"FAKE", "use_store"}});
  wait_for([&] { return said(0, "waiting for machine 1"); });
  constexpr rlim_t kFew = 48;
  const rlimit few{kFew, kFew};
  ASSERT_EQ(prlimit(pid_of(0), RLIMIT_NOFILE, &few, nullptr), 0);
  std::vector<FileDescriptor> strangers;
  for (const char* host : {"127.0.0.2", "127.0.0.3", "127.0.0.4", "127.0.0.5"})
    for (int i = 0; i < 100; ++i) strangers.push_back(stranger_from(host));
  const double before = processor_seconds(0);
  usleep(1'000'000);
  EXPECT_LT(processor_seconds(0) - before, 0.5) << "machine 0 spins";
  start(1, {{"FAKE", "use_store"}});
  const Clock::time_point end = Clock::now() + std::chrono::seconds(4);  // silent ones leave by themselves after 5 s
  while (!said(0, ") of 2 is connected") && Clock::now() < end) usleep(1000);
  EXPECT_TRUE(said(0, ") of 2 is connected")) << screens();
  strangers.clear();
  for (const int number : {0, 1}) EXPECT_EQ(finish(number), 0) << screens();
}

}  // namespace
}  // namespace trainer::launch
