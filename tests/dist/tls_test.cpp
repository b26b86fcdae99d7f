// c10d declares its Gloo backend only with this macro; torch's wheel is built with it.
#define USE_C10D_GLOO

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <numeric>
#include <random>
#include <set>
#include <sstream>

#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "engine/base/errors.h"
#include "engine/dist/tls/door.h"
#include "engine/dist/tls/guard.h"
#include "engine/dist/tls/redirect.h"
#include "engine/dist/tls/session.h"
#include "tests/support/ranks.h"

namespace trainer::testing {
namespace {

using dist::tls::Credentials;
using dist::tls::Door;
using dist::tls::Session;

const Credentials kOurs{.key = std::string(32, 'k')};
const Credentials kOthers{.key = std::string(32, 'x')};

std::string read_all(int fd) {
  std::string bytes(1 << 16, '\0');
  const ssize_t count = ::recv(fd, bytes.data(), bytes.size(), MSG_DONTWAIT);
  bytes.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
  return bytes;
}

/// Both ends of a TCP connection: of other sockets, the kernel encrypts none.
void connect_pair(FileDescriptor* ends) {
  const FileDescriptor listener(socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address{.sin_family = AF_INET, .sin_port = 0, .sin_addr = {htonl(INADDR_LOOPBACK)}, .sin_zero = {}};
  socklen_t size = sizeof(address);
  auto* const named = reinterpret_cast<sockaddr*>(&address);
  EXPECT_EQ(bind(listener.get(), named, size), 0);
  EXPECT_EQ(listen(listener.get(), 1), 0);
  EXPECT_EQ(getsockname(listener.get(), named, &size), 0);
  ends[0].reset(socket(AF_INET, SOCK_STREAM, 0));
  EXPECT_EQ(connect(ends[0].get(), named, size), 0);
  ends[1].reset(accept(listener.get(), nullptr, nullptr));
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(fcntl(ends[i].get(), F_SETFL, O_NONBLOCK), 0);
    const int at_once = 1;
    EXPECT_EQ(setsockopt(ends[i].get(), IPPROTO_TCP, TCP_NODELAY, &at_once, sizeof(at_once)), 0);
  }
}

/// Two sockets with a wire between them, on which a test can change what passes.
class Wire {
 public:
  Wire() { connect_pair(near_), connect_pair(far_); }
  int near() const { return near_[0].get(); }
  int far() const { return far_[0].get(); }
  /// What is under way to the far end, which doesn't get it.
  std::string take() const { return read_all(near_[1].get()); }
  void deliver(const std::string& bytes) const {
    EXPECT_EQ(::send(far_[1].get(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  }
  std::string take_reply() const { return read_all(far_[1].get()); }
  void deliver_reply(const std::string& bytes) const {
    EXPECT_EQ(::send(near_[1].get(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  }
  void pass() const {
    if (const std::string bytes = take(); !bytes.empty()) deliver(bytes);
    if (const std::string bytes = take_reply(); !bytes.empty()) deliver_reply(bytes);
  }

 private:
  FileDescriptor near_[2], far_[2];
};

/// Whether the handshake succeeds on both ends.
bool meet(Session& near, Session& far, const Wire& wire) {
  bool near_done = false, far_done = false;
  try {
    for (int round = 0; round < 10 && !(near_done && far_done); ++round) {
      if (!near_done) near_done = near.shake_hands() == Session::Need::kNothing;
      wire.pass();
      if (!far_done) far_done = far.shake_hands() == Session::Need::kNothing;
      wire.pass();
    }
  } catch (const PeerError&) {
    return false;
  }
  return near_done && far_done;
}

ssize_t write_text(Session& session, const std::string& text) {
  const iovec part{const_cast<char*>(text.data()), text.size()};
  return session.write(&part, 1);
}

std::string read_text(Session& session) {
  std::string text(1 << 16, '\0');
  const ssize_t count = session.read(text.data(), text.size());
  return count >= 0 ? text.substr(0, static_cast<std::size_t>(count)) : "";
}

class Pair : public ::testing::Test {
 protected:
  Wire wire;
  Session near{wire.near(), kOurs, "10.0.0.2:4711", /*accepts=*/false, /*records_per_key=*/3};
  Session far{wire.far(), kOurs, "10.0.0.2:4711", /*accepts=*/true, /*records_per_key=*/3};

  void SetUp() override { ASSERT_TRUE(meet(near, far, wire)); }
  std::string sent(const std::string& text) {
    EXPECT_EQ(write_text(near, text), static_cast<ssize_t>(text.size()));
    return wire.take();
  }
  void expect_tampered() {
    char byte;
    EXPECT_EQ(far.read(&byte, 1), -1);
    EXPECT_EQ(errno, EBADMSG);
  }
};

using TlsPair = Pair;

TEST_F(TlsPair, CarriesTextThatTheWireDoesNotShow) {
  const std::string bytes = sent("a gradient of the run");
  EXPECT_EQ(bytes.find("gradient"), std::string::npos);
  wire.deliver(bytes);
  EXPECT_EQ(read_text(far), "a gradient of the run");
  EXPECT_EQ(write_text(far, "and one back"), 12);
  wire.pass();
  EXPECT_EQ(read_text(near), "and one back");
  char byte;
  EXPECT_EQ(near.read(&byte, 1), -1);
  EXPECT_EQ(errno, EAGAIN);
}

TEST_F(TlsPair, RefusesAChangedRecord) {
  std::string bytes = sent("text");
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  wire.deliver(bytes);
  expect_tampered();
}

TEST_F(TlsPair, RefusesARepeatedRecord) {
  const std::string bytes = sent("text");
  wire.deliver(bytes);
  EXPECT_EQ(read_text(far), "text");
  wire.deliver(bytes);
  expect_tampered();
}

TEST_F(TlsPair, RefusesSwappedRecords) {
  const std::string first = sent("first"), second = sent("second");
  wire.deliver(second + first);
  expect_tampered();
}

TEST_F(TlsPair, RefusesAMissingRecord) {
  sent("first");
  wire.deliver(sent("second"));
  expect_tampered();
}

TEST_F(TlsPair, RefusesAnInsertedRecord) {
  wire.deliver(std::string("\x17\x03\x03\x00\x20", 5) + std::string(32, 'i') + sent("text"));
  expect_tampered();
}

TEST_F(TlsPair, ChangesItsKeysAndLosesNothing) {
  std::string expected, found;
  for (int i = 0; i < 40; ++i) {
    const std::string text(static_cast<std::size_t>(i * 17 + 1), static_cast<char>('a' + i % 26));
    expected += text;
    wire.deliver(sent(text));
    for (std::string part = read_text(far); !part.empty(); part = read_text(far)) found += part;
    EXPECT_EQ(write_text(far, "reply"), 5);  // it changes its keys too
    wire.pass();
    EXPECT_EQ(read_text(near), "reply");
  }
  EXPECT_EQ(found, expected);
}

TEST_F(TlsPair, LeavesNothingOfAPartInTheSession) {
  std::string head = "head", body(50'000, 'b');
  const iovec parts[] = {{head.data(), head.size()}, {body.data(), body.size()}};
  EXPECT_EQ(near.write(parts, 2), 50'004);
  const std::string bytes = wire.take();
  wire.deliver(bytes);
  char read_head[4];
  EXPECT_EQ(far.read(read_head, sizeof(read_head)), 4);
  pollfd event{wire.far(), POLLIN, 0};
  EXPECT_EQ(poll(&event, 1, 0), 1) << "the kernel still has the body";
}

TEST_F(TlsPair, WritesAndReadsWhatFits) {
  // Straight through a pair of sockets whose buffers are small, so that both ends often have to wait.
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
  const FileDescriptor one(ends[0]), other(ends[1]);
  const int small = 8000;
  setsockopt(one.get(), SOL_SOCKET, SO_SNDBUF, &small, sizeof(small));
  Session writer(one.get(), kOurs, "name", false), reader(other.get(), kOurs, "name", true);
  bool met[2] = {};
  for (int i = 0; i < 10 && !(met[0] && met[1]); ++i) {
    met[0] = met[0] || writer.shake_hands() == Session::Need::kNothing;
    met[1] = met[1] || reader.shake_hands() == Session::Need::kNothing;
  }
  std::mt19937 random(7);
  std::vector<char> expected(300'000), found;
  for (char& byte : expected) byte = static_cast<char>(random());
  std::size_t written = 0;
  int waits = 0;
  while (found.size() < expected.size()) {
    const iovec rest{expected.data() + written, expected.size() - written};
    if (rest.iov_len > 0) {
      const ssize_t count = writer.write(&rest, 1);
      if (count < 0) {
        ASSERT_EQ(errno, EAGAIN);
        ++waits;
      } else {
        written += static_cast<std::size_t>(count);
      }
    }
    std::vector<char> part(random() % 20'000 + 1);
    const ssize_t count = reader.read(part.data(), part.size());
    if (count < 0) {
      ASSERT_EQ(errno, EAGAIN);
    }
    if (count > 0) found.insert(found.end(), part.begin(), part.begin() + count);
  }
  EXPECT_EQ(found, expected);
  EXPECT_GT(waits, 0);
}

TEST_F(TlsPair, EndsAsTcpDoes) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
  FileDescriptor one(ends[0]), left(ends[1]);
  Session a(one.get(), kOurs, "name", false), b(left.get(), kOurs, "name", true);
  for (int i = 0; i < 4; ++i) a.shake_hands(), b.shake_hands();
  one.reset();
  char byte;
  EXPECT_EQ(b.read(&byte, 1), 0) << "the other end was closed";
}

TEST(TlsHello, RefusesAnotherKey) {
  const Wire wire;
  Session near(wire.near(), kOthers, "name", false), far(wire.far(), kOurs, "name", true);
  EXPECT_FALSE(meet(near, far, wire));
}

TEST(TlsHello, RefusesAConnectionMeantForAnotherRank) {
  const Wire wire;
  Session near(wire.near(), kOurs, "10.0.0.3:4711", false), far(wire.far(), kOurs, "10.0.0.2:4711", true);
  EXPECT_FALSE(meet(near, far, wire));
}

TEST(TlsHello, RefusesItsOwnEcho) {
  const Wire wire;
  Session near(wire.near(), kOurs, "name", false);
  EXPECT_EQ(near.shake_hands(), Session::Need::kRead);
  wire.deliver_reply(wire.take());
  EXPECT_THROW(near.shake_hands(), PeerError);
}

TEST(TlsHello, ContinuesInClearFromTheFirstByteAfterIt) {
  const Wire wire;
  Session near(wire.near(), kOurs, "name", false), far(wire.far(), kOurs, "name", true);
  for (int i = 0; i < 2; ++i) {
    if (near.shake_hands() == Session::Need::kNothing) break;
    wire.pass();
    far.shake_hands();
    wire.pass();
  }
  EXPECT_EQ(::send(wire.near(), "clear", 5, 0), 5);  // comes with the last bytes of the handshake
  wire.pass();
  EXPECT_EQ(far.shake_hands(), Session::Need::kNothing);
  EXPECT_EQ(read_all(wire.far()), "clear");
}

/// A listening socket on the loopback address, and connections to it.
class TlsDoor : public ::testing::Test {
 protected:
  FileDescriptor listener{socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0)};
  sockaddr_storage address{};
  std::unique_ptr<Door> door;

  void SetUp() override {
    auto& v4 = reinterpret_cast<sockaddr_in&>(address);
    v4.sin_family = AF_INET;
    v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(v4);
    ASSERT_EQ(bind(listener.get(), reinterpret_cast<sockaddr*>(&v4), size), 0);
    ASSERT_EQ(::listen(listener.get(), 512), 0);
    ASSERT_EQ(getsockname(listener.get(), reinterpret_cast<sockaddr*>(&v4), &size), 0);
    door = std::make_unique<Door>(listener.get(), kOurs);
  }
  FileDescriptor connected() const {
    FileDescriptor socket(::socket(AF_INET, SOCK_STREAM, 0));
    if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(sockaddr_in)) != 0) socket.reset();
    return socket;
  }
  /// Whether a connection with these credentials becomes a guest.
  bool comes_in(const Credentials& credentials) const {
    const FileDescriptor socket = connected();
    Session session(socket.get(), credentials, dist::tls::endpoint(address), false);
    try {
      while (session.shake_hands() != Session::Need::kNothing) {
      }
    } catch (const PeerError&) {
      return false;
    }
    pollfd event{door->ready(), POLLIN, 0};
    return poll(&event, 1, 30'000) == 1 && door->next().socket;
  }
  /// Sends `bytes`, and waits until the door hangs up.
  void expect_refused(const std::string& bytes) const {
    const FileDescriptor socket = connected();
    EXPECT_EQ(::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
    char reply[4096];
    ssize_t count;
    while ((count = ::recv(socket.get(), reply, sizeof(reply), 0)) > 0) {
    }
    pollfd event{door->ready(), POLLIN, 0};
    EXPECT_EQ(poll(&event, 1, 0), 0);
  }
};

TEST_F(TlsDoor, LetsPeersInAfterStrangersOfAllKinds) {
  const std::vector<FileDescriptor> silent = [&] {
    std::vector<FileDescriptor> sockets;
    for (int i = 0; i < 20; ++i) sockets.push_back(connected());
    return sockets;
  }();
  expect_refused("GET / HTTP/1.1\r\n\r\n");
  expect_refused(std::string(8, '\0') + std::string(5000, 'g'));  // what Gloo expects: a sequence number
  const Wire wire;
  Session recorded(wire.near(), kOurs, dist::tls::endpoint(address), false);
  recorded.shake_hands();
  expect_refused(wire.take() + std::string(200, 'r'));  // a peer's first flight again, without its key to continue
  EXPECT_FALSE(comes_in(kOthers));
  EXPECT_TRUE(comes_in(kOurs));
}

TEST_F(TlsDoor, MakesRoomForPeersWhenStrangersAreMany) {
  std::vector<FileDescriptor> silent;
  for (std::size_t i = 0; i < Door::kMostAtOnce + 10; ++i) silent.push_back(connected());
  EXPECT_TRUE(comes_in(kOurs));
}

TEST_F(TlsDoor, ClosesThePort) {
  door->shut();
  EXPECT_FALSE(connected());
}

/// The TCP ports on which this process listens.
std::set<int> open_ports() {
  std::set<std::string> inodes;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    inodes.insert(std::filesystem::read_symlink(entry, gone).string());
  }
  std::set<int> ports;
  for (const char* const table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream lines(table);
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      std::vector<std::string> word(std::istream_iterator<std::string>(words), {});
      if (word.size() < 10 || word[3] != "0A" || !inodes.contains("socket:[" + word[9] + "]")) continue;
      ports.insert(std::stoi(word[1].substr(word[1].find(':') + 1), nullptr, 16));
    }
  }
  return ports;
}

/// What some collectives of various sizes give on rank 0 of `count`, and the ports that were open meanwhile.
std::vector<at::Tensor> collectives(int count, std::set<int>& ports) {
  std::vector<at::Tensor> results;
  run_gloo_ranks(count, [&](dist::Comm& comm) {
    for (const int64_t size : {1, 1000, 3'000'000}) {
      at::Tensor sum = at::arange(size, at::kDouble).mul(0.7 + comm.rank()).sin().to(at::kFloat);
      comm.all_reduce(sum, dist::Reduce::kSum);
      const at::Tensor shard = at::full({size}, 1.0 + comm.rank()), full = at::empty({size * comm.size()});
      comm.all_gather(full, shard)->wait();
      if (comm.rank() != 0) continue;
      results.push_back(sum);
      results.push_back(full);
    }
    const auto group = comm.group("pair", comm.rank() < 2 ? std::vector{0, 1} : std::vector{2});
    at::Tensor sum = at::full({7}, 0.1 + comm.rank());
    group->all_reduce(sum, dist::Reduce::kSum);
    if (comm.rank() == 0) {
      results.push_back(sum);
      ports = open_ports();
    }
    comm.barrier();
  });
  return results;
}

TEST(TlsGloo, GivesTheSameBitsAndLeavesNoPortOpen) {
  std::set<int> ports;
  const std::vector<at::Tensor> expected = collectives(3, ports);
  EXPECT_FALSE(ports.empty()) << "Gloo by itself listens";
  const auto before = open_ports();
  dist::tls::guard_connections(kOurs);
  const std::vector<at::Tensor> found = collectives(3, ports);
  EXPECT_EQ(ports, before);
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_TRUE(at::equal(found[i], expected[i])) << i;
}

void nothing() {}

TEST(TlsRedirect, RefusesACallThatTheLibraryDoesNotMake) {
  const auto inside = reinterpret_cast<const void*>(&c10d::ProcessGroupGloo::createDeviceForHostname);
  EXPECT_THROW(dist::tls::redirect_calls(inside, {{"no_such_function", reinterpret_cast<void*>(nothing)}}),
               MachineError);
}

}  // namespace
}  // namespace trainer::testing
