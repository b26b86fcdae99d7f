#include "engine/base/link.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <cstring>
#include <functional>

#include "engine/base/errors.h"
#include "engine/base/file_descriptor.h"

namespace trainer {
namespace {

TEST(LinkProtocol, RoundTripsAMessage) {
  const LinkMessage message{.op = LinkOp::kCompareSet,
                            .id = 7,
                            .code = -3,
                            .number = int64_t{-1} << 40,
                            .strings = {"", std::string("a\0b", 3), std::string(70'000, 'x')}};
  FrameReader reader;
  const std::string frames = encode_frame(message) + encode_frame({.op = LinkOp::kDone});
  std::vector<LinkMessage> messages;
  for (char byte : frames) {  // one at a time: a frame may arrive in pieces
    reader.append({&byte, 1});
    while (auto next = reader.next()) messages.push_back(*next);
  }
  ASSERT_EQ(messages.size(), 2u);
  EXPECT_EQ(messages[0].op, message.op);
  EXPECT_EQ(messages[0].id, message.id);
  EXPECT_EQ(messages[0].code, message.code);
  EXPECT_EQ(messages[0].number, message.number);
  EXPECT_EQ(messages[0].strings, message.strings);
  EXPECT_EQ(messages[1].op, LinkOp::kDone);
}

/// A frame of `body` with any length field.
std::string frame_of(uint32_t length, const std::string& body) {
  std::string frame(sizeof(length), '\0');
  std::memcpy(frame.data(), &length, sizeof(length));
  return frame + body;
}

TEST(LinkProtocol, RejectsFalseLengths) {
  const std::string good = encode_frame({.op = LinkOp::kSet, .strings = {"key", "value"}}).substr(4);
  auto size = static_cast<uint32_t>(good.size());
  std::string unknown = good, many = good, longer = good;
  unknown[0] = 99;
  std::memset(many.data() + 17, 0xff, 4);    // the count of strings
  std::memset(longer.data() + 21, 0xff, 4);  // the length of the first
  for (const std::string& bytes :
       {frame_of(kMaxLinkFrame + 1, ""), frame_of(0, ""), frame_of(size - 1, good), frame_of(size + 1, good + "x"),
        frame_of(size, unknown), frame_of(size, many), frame_of(size, longer)}) {
    FrameReader reader;
    reader.append(bytes);
    EXPECT_THROW(reader.next(), PeerError);
  }
  EXPECT_THROW(encode_frame({.op = LinkOp::kSet, .strings = {std::string(kMaxLinkFrame, 'x')}}), InternalError);
}

/// A link whose other end is served by `serve` on a thread, until the link closes.
class LinkTest : public ::testing::Test {
 protected:
  using Send = std::function<void(const LinkMessage&)>;

  LinkTest() {
    int pair[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    link_ = std::make_unique<Link>(pair[0]);
    peer_.reset(pair[1]);
  }
  ~LinkTest() override {
    link_.reset();
    if (server_.joinable()) server_.join();
  }

  void send(const LinkMessage& message) {
    const std::string frame = encode_frame(message);
    ::send(peer_.get(), frame.data(), frame.size(), MSG_NOSIGNAL);
  }

  std::optional<LinkMessage> receive() {
    for (;;) {
      if (auto message = frames_.next()) return message;
      char bytes[1000];
      ssize_t count = recv(peer_.get(), bytes, sizeof(bytes), 0);
      if (count <= 0) return std::nullopt;
      frames_.append({bytes, static_cast<size_t>(count)});
    }
  }

  void serve(std::function<void(const LinkMessage&)> answer) {
    server_ = std::thread([this, answer] {
      while (auto message = receive()) answer(*message);
    });
  }

  std::unique_ptr<Link> link_;
  FileDescriptor peer_;
  FrameReader frames_;
  std::thread server_;
};

TEST_F(LinkTest, AWaitingThreadDoesNotBlockAnother) {
  uint32_t get = 0, set = 0;
  serve([&](const LinkMessage& message) {
    if (message.op == LinkOp::kGet) get = message.id;
    if (message.op == LinkOp::kSet) set = message.id;
    if (message.op == LinkOp::kDone) return send({.id = get, .strings = {"value"}});
    if (get != 0 && set != 0) send({.id = set});  // only once the other thread waits
  });
  std::string got;
  std::thread waiter([&] { got = link_->get("key"); });
  link_->set("key", "value");
  link_->report_done();
  waiter.join();
  EXPECT_EQ(got, "value");
}

TEST_F(LinkTest, ReportsCarryTheirFields) {
  link_->report_step(12, "saving");
  link_->report_failure(3, 12, "bad file");
  link_->report_done();
  auto step = receive(), failure = receive(), done = receive();
  ASSERT_TRUE(step && failure && done);
  EXPECT_EQ(step->op, LinkOp::kStep);
  EXPECT_EQ(step->number, 12);
  EXPECT_EQ(step->strings.at(0), "saving");
  EXPECT_EQ(failure->op, LinkOp::kFailure);
  EXPECT_EQ(failure->code, 3);
  EXPECT_EQ(failure->strings.at(0), "bad file");
  EXPECT_EQ(done->op, LinkOp::kDone);
}

TEST_F(LinkTest, FailureRepliesThrow) {
  serve([&](const LinkMessage& message) {
    send({.id = message.id,
          .code = message.op == LinkOp::kWait ? kLinkTimedOut : kLinkRefused,
          .strings = {"because of " + (message.strings.empty() ? "nothing" : message.strings[0])}});
  });
  EXPECT_THROW(link_->wait({"a"}, Link::Milliseconds(5)), PeerError);
  EXPECT_THROW(link_->num_keys(), InternalError);
}

TEST_F(LinkTest, ALostSupervisorThrowsPeerError) {
  std::thread supervisor([&] {
    receive();  // the request below, which gets no reply
    peer_.reset();
  });
  EXPECT_THROW(link_->get("key"), PeerError);
  supervisor.join();
  EXPECT_THROW(link_->set("key", "value"), PeerError);
  EXPECT_THROW(link_->report_step(1, "forward"), PeerError);
  EXPECT_NO_THROW(link_->report_failure(1, 1, "too late"));
}

TEST(LinkFromEnvironment, ExistsOnlyUnderASupervisor) {
  unsetenv(kLinkVariable);
  EXPECT_EQ(Link::from_environment(), nullptr);
  for (const char* text : {"", "x", "3x", "99999", "-1"}) {
    setenv(kLinkVariable, text, 1);
    EXPECT_THROW(Link::from_environment(), PeerError) << text;
  }
  int pair[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
  FileDescriptor peer(pair[1]);
  setenv(kLinkVariable, std::to_string(pair[0]).c_str(), 1);
  auto link = Link::from_environment();
  ASSERT_NE(link, nullptr);
  EXPECT_EQ(getenv(kLinkVariable), nullptr);
  EXPECT_EQ(fcntl(pair[0], F_GETFD), FD_CLOEXEC);
}

}  // namespace
}  // namespace trainer
