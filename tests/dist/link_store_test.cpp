// Ranks rendezvous through the supervisor's store, over links as in a run.
#include <sys/socket.h>

#include <mutex>
#include <thread>

#include <gtest/gtest.h>

#include "engine/base/file_descriptor.h"
#include "engine/base/link.h"
#include "engine/dist/gloo_comm.h"
#include "engine/dist/link_store.h"
#include "engine/launch/store.h"

namespace trainer::testing {
namespace {

/// The supervisor's end of the links: one store, and one thread per rank.
class Supervisor {
 public:
  explicit Supervisor(int ranks) : ends_(ranks), servers_(ranks) {
    for (int rank = 0; rank < ranks; ++rank) {
      int pair[2];
      EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
      links.push_back(std::make_unique<Link>(pair[0]));
      ends_[rank].reset(pair[1]);
    }
    for (int rank = 0; rank < ranks; ++rank) servers_[rank] = std::thread([this, rank] { serve(rank); });
  }
  ~Supervisor() {
    links.clear();
    for (std::thread& server : servers_) server.join();
  }

  std::vector<std::unique_ptr<Link>> links;

 private:
  void serve(int rank) {
    FrameReader frames;
    char bytes[4096];
    for (ssize_t count = 0; (count = recv(ends_[rank].get(), bytes, sizeof bytes, 0)) > 0;) {
      frames.append({bytes, static_cast<size_t>(count)});
      while (const auto message = frames.next()) {
        const std::lock_guard lock(mutex_);
        std::vector<launch::Store::Answer> answers;
        store_.handle(rank, *message, launch::Clock::now(), answers);
        for (const auto& answer : answers) {
          const std::string frame = encode_frame(answer.message);
          ::send(ends_[answer.rank].get(), frame.data(), frame.size(), MSG_NOSIGNAL);
        }
      }
    }
  }

  std::mutex mutex_;
  launch::Store store_;
  std::vector<FileDescriptor> ends_;
  std::vector<std::thread> servers_;
};

std::vector<uint8_t> bytes(const std::string& text) {
  return {text.begin(), text.end()};
}

TEST(LinkStore, ImplementsTorchsStore) {
  Supervisor supervisor(2);
  dist::LinkStore one(*supervisor.links[0], "a/"), same(*supervisor.links[1], "a/"), other(*supervisor.links[0], "b/");
  one.set("key", bytes(std::string("\0\xff", 2)));
  EXPECT_EQ(same.get("key"), bytes(std::string("\0\xff", 2)));
  EXPECT_TRUE(same.check({"key"}));
  EXPECT_FALSE(other.check({"key"}));  // the prefixes separate them
  EXPECT_EQ(one.add("n", 2), 2);
  EXPECT_EQ(same.add("n", 3), 5);
  EXPECT_EQ(one.compareSet("c", {}, bytes("first")), bytes("first"));
  EXPECT_EQ(same.compareSet("c", bytes("x"), bytes("second")), bytes("first"));
  EXPECT_TRUE(one.deleteKey("c"));
  EXPECT_FALSE(one.deleteKey("c"));
  std::thread later([&] { same.set("late", bytes("v")); });
  one.wait({"late"});
  later.join();
  EXPECT_EQ(one.clone()->get("late"), bytes("v"));
}

TEST(LinkStore, RanksRendezvousThroughIt) {
  constexpr int kRanks = 3;
  Supervisor supervisor(kRanks);
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < kRanks; ++rank)
    ranks.emplace_back([&, rank] {
      const auto comm = dist::gloo_comm(*supervisor.links[rank], rank, kRanks);
      EXPECT_EQ(comm->sum(rank + 1), 6);
      comm->barrier();
    });
  for (std::thread& rank : ranks) rank.join();
}

}  // namespace
}  // namespace trainer::testing
