#include "engine/launch/status_server.h"

#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>

#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/errors.h"
#include "engine/launch/run_status.h"

namespace trainer::launch {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr const char* kRequest = "GET /page HTTP/1.1\r\nHost: a\r\n\r\n";

int free_port() {
  const FileDescriptor socket = try_listen(resolve("127.0.0.1", 0).front());
  const std::string text = own_address(socket.get()).text();
  return std::stoi(text.substr(text.rfind(':') + 1));
}

class StatusServerTest : public ::testing::Test {
 protected:
  void start(milliseconds patience = std::chrono::seconds(60)) {
    server_.emplace(
        std::vector{address_},
        [this](const std::string& path) {
          ++answers_;
          return path == "/page" ? HttpResponse{.body = page_} : HttpResponse{.status = 404};
        },
        patience);
  }

  FileDescriptor client(const std::string& request = "") {
    FileDescriptor socket = connect_to(address_, 1000);
    EXPECT_EQ(send(socket.get(), request.data(), request.size(), 0), std::ssize(request));
    return socket;
  }

  /// Serves as the launcher's loop does, until no event comes for a while.
  void serve() {
    pollfd event{server_->fd(), POLLIN, 0};
    constexpr int kQuiet = 50;
    for (int i = 0; i < 10'000 && poll(&event, 1, kQuiet) == 1; ++i) server_->serve();
  }

  /// The bytes that a client has received; sets `closed_` if the server has ended its side.
  std::string received(const FileDescriptor& socket) {
    std::string text;
    char bytes[4096];
    ssize_t count;
    while ((count = recv(socket.get(), bytes, sizeof(bytes), MSG_DONTWAIT)) > 0)
      text.append(bytes, static_cast<std::size_t>(count));
    closed_ = count == 0 || errno != EAGAIN;
    return text;
  }
  bool is_closed(const FileDescriptor& socket) {
    received(socket);
    return closed_;
  }

  const Address address_ = resolve("127.0.0.1", free_port()).front();
  std::string page_ = "a page\n";
  int answers_ = 0;
  bool closed_ = false;
  std::optional<StatusServer> server_;
};

TEST_F(StatusServerTest, AnswersAndCloses) {
  start();
  const FileDescriptor socket = client(kRequest);
  serve();
  const std::string text = received(socket);
  EXPECT_THAT(text, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_TRUE(text.ends_with("\r\n\r\na page\n")) << text;
  EXPECT_TRUE(closed_);
}

TEST_F(StatusServerTest, RefusesWhatItCannotAnswer) {
  start();
  const std::string long_path(9000, 'a');
  for (const auto& [request, status] :
       std::map<std::string, std::string>{{"POST /page HTTP/1.1\r\nContent-Length: 5\r\n\r\nabcde", "405"},
                                          {"nonsense\r\n\r\n", "400"},
                                          {"GET /" + long_path + " HTTP/1.1\r\n\r\n", "414"},
                                          {"GET /other HTTP/1.1\r\n\r\n", "404"},
                                          {"GET / HTTP/1.1\r\nX: " + long_path + "\r\n\r\n", "431"}}) {
    const FileDescriptor socket = client(request);
    serve();
    EXPECT_THAT(received(socket), StartsWith("HTTP/1.1 " + status + " ")) << request;
  }
}

TEST_F(StatusServerTest, AnswersARequestThatArrivesByteByByte) {
  start();
  const FileDescriptor socket = client();
  for (const char* byte = kRequest; *byte != '\0'; ++byte) {
    ASSERT_EQ(send(socket.get(), byte, 1, 0), 1);
    server_->serve();
  }
  serve();
  EXPECT_THAT(received(socket), HasSubstr("a page"));
}

TEST_F(StatusServerTest, SendsALargePageToAClientThatReadsLate) {
  page_ = std::string(20'000'000, 'x');  // larger than the buffers of both sockets
  start();
  const FileDescriptor slow = client(kRequest);
  serve();
  const FileDescriptor other = client("GET /page HTTP/1.1\r\n\r\n");
  serve();
  EXPECT_EQ(answers_, 2) << "the slow client delays no other";
  std::string text;
  for (int i = 0; i < 1000 && !closed_; ++i) {
    text += received(slow);
    serve();
  }
  EXPECT_TRUE(closed_);
  EXPECT_GT(text.size(), page_.size());
}

TEST_F(StatusServerTest, ClosesConnectionsAfterItsPatience) {
  start(milliseconds(100));
  const FileDescriptor silent = client(), half = client("GET /pa");
  server_->serve();
  EXPECT_FALSE(is_closed(silent));
  pollfd event{server_->fd(), POLLIN, 0};
  while (!is_closed(silent) || !is_closed(half)) {
    ASSERT_EQ(poll(&event, 1, 10'000), 1) << "the time-out makes the descriptor readable";
    server_->serve();
  }
  EXPECT_EQ(answers_, 0);
}

TEST_F(StatusServerTest, ClosesTheOldestConnectionForANewOne) {
  start();
  std::vector<FileDescriptor> clients;
  for (std::size_t i = 0; i < StatusServer::kMostConnections; ++i) clients.push_back(client());
  serve();
  EXPECT_FALSE(is_closed(clients.front()));
  const FileDescriptor last = client(kRequest);
  serve();
  EXPECT_TRUE(is_closed(clients.front()));
  EXPECT_FALSE(is_closed(clients[1]));
  EXPECT_THAT(received(last), HasSubstr("a page"));
}

TEST_F(StatusServerTest, SurvivesClientsThatHangUp) {
  page_ = std::string(5'000'000, 'x');
  start();
  for (const char* request : {"", "GET", kRequest}) {
    for (int i = 0; i < 20; ++i) {
      FileDescriptor socket = client(request);
      const linger reset{.l_onoff = 1, .l_linger = 0};  // close() resets the connection
      if (i % 2 == 0) setsockopt(socket.get(), SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
      if (i % 4 < 2) server_->serve();
      socket.reset();
      server_->serve();
    }
  }
  page_ = "a page\n";
  const FileDescriptor socket = client(kRequest);
  serve();
  EXPECT_THAT(received(socket), HasSubstr("a page"));
}

TEST_F(StatusServerTest, IsQuietAfterItClosedAConnectionThatAForkedProcessHolds) {
  start();
  const FileDescriptor socket = client();
  serve();
  const pid_t child = fork();  // it has a copy of the accepted socket
  if (child == 0) {
    for (;;) ::pause();
  }
  EXPECT_EQ(send(socket.get(), kRequest, strlen(kRequest), 0), static_cast<ssize_t>(strlen(kRequest)));
  serve();
  EXPECT_THAT(received(socket), HasSubstr("a page"));
  shutdown(socket.get(), SHUT_RDWR);  // the child has a copy of this one too
  serve();
  pollfd event{server_->fd(), POLLIN, 0};
  EXPECT_EQ(poll(&event, 1, 100), 0);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

TEST_F(StatusServerTest, ListensAgainAfterItRanOutOfFileDescriptors) {
  start();
  const FileDescriptor socket = client(kRequest);
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  rlimit none = before;
  none.rlim_cur = static_cast<rlim_t>(FileDescriptor(dup(socket.get())).get());  // the next number
  setrlimit(RLIMIT_NOFILE, &none);
  server_->serve();
  pollfd event{server_->fd(), POLLIN, 0};
  EXPECT_EQ(poll(&event, 1, 100), 0) << "the loop doesn't spin";
  setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_EQ(poll(&event, 1, 10'000), 1);
  serve();
  EXPECT_THAT(received(socket), HasSubstr("a page"));
}

TEST_F(StatusServerTest, NamesTheHolderOfItsPort) {
  start();
  try {
    const StatusServer other({address_}, [](const std::string&) { return HttpResponse{}; });
    FAIL();
  } catch (const MachineError& error) {
    EXPECT_THAT(error.what(),
                StartsWith("cannot serve metrics on " + address_.text() + ": the port is in use by process "));
    EXPECT_THAT(error.what(), HasSubstr("set another logging.metrics_port (--metrics_port)"));
  }
}

RunStatus training() {
  RunStatus status{.world_size = 2};
  for (const int number : {0, 1}) status.ranks.push_back({number, getpid(), true, true, 0.5});
  return status;
}

TEST(RunStatus, IsReadyOnceEveryRankHasUpdated) {
  RunStatus status = training();
  EXPECT_EQ(status.respond("/readyz").status, 200);
  status.ranks[1].has_updated = false;
  EXPECT_EQ(status.respond("/readyz").status, 503);
  EXPECT_EQ(status.respond("/readyz").body, "1 of 2 ranks of this machine have finished an update\n");
  EXPECT_EQ(status.respond("/healthz").status, 200);
}

TEST(RunStatus, IsNotReadyBetweenAttemptsAndAtTheEnd) {
  RunStatus status = training();
  status.is_ending = true;
  EXPECT_EQ(status.respond("/readyz").status, 503);
  status = {};
  EXPECT_EQ(status.respond("/readyz").body, "no ranks are started yet\n");
  status.restarts = 1;
  EXPECT_EQ(status.respond("/readyz").body, "restarting\n");
}

TEST(RunStatus, ShowsRanksAndSaves) {
  RunStatus status = training();
  status.saves = 3;
  status.leader_epoch = 2;
  EXPECT_THAT(status.respond("/metrics").body, Not(HasSubstr("replicated"))) << "no machine keeps copies";
  status.replicated = "checkpoint-40";
  status.ranks[1].is_alive = false;
  const std::string page = status.respond("/metrics").body;
  for (const char* line :
       {"trainer_ranks 2\n", "trainer_ranks_alive 1\n", "trainer_checkpoint_saves_total 3\n",
        "trainer_checkpoint_save_failures_total 0\n", "trainer_restarts_total 0\n", "trainer_leader_epoch 2\n",
        "trainer_checkpoint_replicated_step 40\n", "trainer_rank_last_progress_age_seconds{rank=\"0\"} 0.5\n",
        "trainer_rank_resident_memory_bytes{rank=\"0\"} ", "trainer_build_info{version=\"0."})
    EXPECT_THAT(page, HasSubstr(line));
  EXPECT_THAT(page, Not(HasSubstr("rank=\"1\"")));
  status.is_leader = false;
  EXPECT_THAT(status.respond("/metrics").body, Not(HasSubstr("saves_total"))) << "only machine 0 knows";
  EXPECT_EQ(status.respond("/").status, 404);
}

}  // namespace
}  // namespace trainer::launch
