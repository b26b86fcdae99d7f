// A scripted rank for the supervisor's tests. FAKE_<rank>, else FAKE, sets its behavior: "verb" or "verb:argument".
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <string>

#include <fmt/format.h>

#include "engine/base/errors.h"
#include "engine/base/link.h"
#include "engine/base/mapped_file.h"
#include "engine/base/rank_board.h"
#include "tests/support/bare_checkpoint.h"

namespace {

using trainer::Link;
namespace fs = std::filesystem;

volatile sig_atomic_t stop_signal = 0;

std::string variable(const std::string& name) {
  const char* text = std::getenv(name.c_str());
  return text != nullptr ? text : "";
}

struct Worker {
  int rank = std::stoi(variable("RANK"));
  int world_size = std::stoi(variable("WORLD_SIZE"));
  fs::path notes = variable("FAKE_NOTES");
  std::string argument;
  std::unique_ptr<Link> link = Link::from_environment();

  void note(const std::string& name, const std::string& text) {
    const fs::path path = notes / fmt::format("{}-{}", name, rank);
    std::ofstream(path.string() + ".tmp") << text;
    fs::rename(path.string() + ".tmp", path);
  }

  /// A barrier of all ranks, through the store.
  void barrier() {
    if (link->add("barrier", 1) == world_size) link->set("open", "yes");
    link->wait({"open"}, std::chrono::seconds(30));
  }
};

int finish(Worker& worker) {
  worker.barrier();
  worker.link->report_step(1, "forward");
  worker.link->report_done();
  return 0;
}

/// Makes an update once the note "go" exists, and finishes once "finish" does. Rank 0 publishes a line of metrics, a
/// save that succeeded and one that failed.
int publish(Worker& worker) {
  const auto wait_for_note = [&](const char* name) {
    while (!fs::exists(worker.notes / name)) usleep(1000);
  };
  worker.link->report_step(1, trainer::kForwardAndBackward);
  worker.link->report_step(1, trainer::kOptimizerStep);
  worker.note("updates", "");
  wait_for_note("go");
  worker.link->report_step(1, "logging");
  if (worker.rank == 0) {
    worker.link->report_metrics(R"({"step":1,"loss":2.5,"tokens":8,"samples":2,"order_digest":"a"})");
    worker.link->report_save(true);
    worker.link->report_save(false);
  }
  wait_for_note("finish");
  worker.link->report_done();
  return 0;
}

/// Finishes once a note of that name exists.
int finish_at(Worker& worker) {
  worker.note("waits", "");
  while (!fs::exists(worker.notes / worker.argument)) usleep(1000);
  return finish(worker);
}

/// Starts a process that would outlive it.
void start_child(Worker& worker) {
  if (fork() != 0) return;
  worker.note("child", std::to_string(getpid()));
  for (;;) pause();
}

int leave_child(Worker& worker) {
  start_child(worker);
  while (!fs::exists(worker.notes / fmt::format("child-{}", worker.rank))) usleep(1000);
  return finish(worker);
}

int exit_silently(Worker& worker) {
  worker.barrier();
  for (int line = 1; line <= 30; ++line) fmt::print(stderr, "line {}\n", line);
  return std::stoi(worker.argument);
}

int kill_itself(Worker& worker) {
  worker.link->report_step(5, "backward");
  worker.barrier();
  const int signal = std::stoi(worker.argument);
  ::signal(signal, SIG_DFL);  // sanitizers handle some signals
  raise(signal);
  return 0;
}

/// Reads a mapped file that has been truncated.
int read_truncated(Worker& worker) {
  const auto board = trainer::RankBoard::from_environment();
  const fs::path path = worker.notes / "my weights";
  std::ofstream(path) << std::string(10'000, 'w');
  const trainer::MappedFile file(path);
  worker.link->report_step(5, "backward");
  worker.barrier();
  fs::resize_file(path, 10);
  const volatile char last = file.bytes().back();
  return last;
}

/// Dies in the given number of attempts, in each one step later than in the one before, and succeeds in the next.
int die_in_lives(Worker& worker) {
  const int attempt = std::stoi(variable(trainer::kAttemptVariable));
  worker.note(fmt::format("life-{}", attempt), "");
  worker.link->report_step(5 + attempt, "backward");
  worker.barrier();
  if (attempt < std::stoi(worker.argument)) raise(SIGKILL);
  worker.link->report_done();
  return 0;
}

int report_failure(Worker& worker) {
  worker.link->report_failure(std::stoi(worker.argument), -1, "the model is broken\n  why: it is");
  return std::stoi(worker.argument);
}

/// Reports a lost peer before anything else is known.
int lose_peer(Worker& worker) {
  worker.link->report_failure(trainer::kPeerFailure, 5, "lost a peer");
  worker.barrier();
  return trainer::kPeerFailure;
}

int hang(Worker& worker) {
  for (int signal : {SIGTERM, SIGINT}) {
    if (worker.argument == "stubborn") ::signal(signal, SIG_IGN);
  }
  if (worker.argument == "parent") start_child(worker);
  fmt::print(stderr, "hanging\n");
  worker.barrier();
  worker.note("ready", "");
  for (;;) pause();
}

/// Saves and stops on request; saving takes the given number of milliseconds.
int train(Worker& worker) {
  for (int signal : {SIGTERM, SIGINT}) ::signal(signal, [](int number) { stop_signal = number; });
  worker.link->report_step(7, "forward");
  worker.barrier();
  worker.note("ready", "");
  while (stop_signal == 0) usleep(1000);
  worker.note("signal", std::to_string(stop_signal));
  if (!worker.argument.empty()) usleep(1000 * std::stoi(worker.argument));
  trainer::testing::leave_bare_checkpoint(variable("FAKE_OUTPUT"), 7);
  return 128 + stop_signal;
}

/// Trains until it is asked to stop or to yield, in the given number of attempts; the next one succeeds.
int live(Worker& worker) {
  for (int signal : {SIGTERM, SIGINT, SIGURG})
    ::signal(signal, [](int number) { stop_signal = number == SIGINT ? SIGINT : SIGTERM; });
  const int attempt = std::stoi(variable(trainer::kAttemptVariable));
  const int step = 10 * attempt + 7;
  worker.link->report_step(step, "forward");
  worker.note(fmt::format("life-{}", attempt), std::to_string(worker.world_size));
  worker.barrier();
  if (attempt >= std::stoi(worker.argument)) {
    worker.link->report_done();
    return 0;
  }
  while (stop_signal == 0) usleep(1000);
  trainer::testing::leave_bare_checkpoint(variable("FAKE_OUTPUT"), step);
  return 128 + stop_signal;
}

int show_environment(Worker& worker) {
  for (const char* name :
       {"RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "OMP_NUM_THREADS", "MKL_NUM_THREADS"}) {
    fmt::print("{}={}\n", name, variable(name));
  }
  fmt::print("plan={}\n", worker.link->plan().find("tests.yaml") != std::string::npos ? "mine" : "another's");
  fmt::print("link passed on={}\n", variable(trainer::kLinkVariable).empty() ? "no" : "yes");
  std::fflush(stdout);
  return finish(worker);
}

int note_environment(Worker& worker) {
  std::string text;
  for (const char* name : {"LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "TRAINER_ADDRESS", "TRAINER_KEEPERS",
                           "TRAINER_SECRET", "NCCL_SOCKET_IFNAME", "TRAINER_OWN_GPU", "CUDA_VISIBLE_DEVICES"})
    text += fmt::format("{}={}\n", name, variable(name));
  worker.note("environment", text);
  return finish(worker);
}

int use_store(Worker& worker) {
  Link& link = *worker.link;
  const std::string mine = std::to_string(worker.rank);
  link.set("from/" + mine, std::string(300'000, 'x') + mine);  // larger than a socket's buffer
  for (int rank = 0; rank < worker.world_size; ++rank) {
    const std::string other = std::to_string(rank);
    trainer::require(link.get("from/" + other) == std::string(300'000, 'x') + other, "the value of {}", rank);
  }
  try {
    link.wait({"never"}, Link::Milliseconds(20));
    trainer::require(false, "a wait for nothing ended");
  } catch (const trainer::PeerError&) {
  }
  worker.barrier();
  if (link.compare_set("winner", "", mine) == mine) link.add("winners", 1);
  link.add("sum", worker.rank);
  worker.link->add("counted", 1);
  while (link.add("counted", 0) < worker.world_size) usleep(1000);
  trainer::require(link.get("winners") == "1", "{} winners", link.get("winners"));
  trainer::require(link.get("sum") == std::to_string(worker.world_size * (worker.world_size - 1) / 2), "a wrong sum");
  trainer::require(!link.erase("never") && !link.check({"never"}) && link.num_keys() == worker.world_size + 6,
                   "{} keys", link.num_keys());
  link.report_done();
  return 0;
}

/// Calls two collectives; the second has the given number of elements. "stop": the rank is stopped in between.
int call(Worker& worker) {
  const auto board = trainer::RankBoard::from_environment();
  board->set_place(3, "forward");
  const int all = board->add_group("among all ranks", {0, 1});
  board->end(all, board->begin(all, trainer::CollectiveKind::kBarrier, 0, "", ""));
  if (worker.argument == "stop") raise(SIGSTOP);
  const int64_t elements = std::stoll(worker.argument);
  board->wait(all, board->begin(all, trainer::CollectiveKind::kAllGather, elements, "Float", "block.1"));
  worker.note("called", "");
  for (;;) pause();
}

/// Makes updates without waiting, then stays in the given phase.
int update_then_stay(Worker& worker) {
  const auto board = trainer::RankBoard::from_environment();
  for (int64_t step = 1; step <= 60; ++step) {
    board->set_place(step, trainer::kForwardAndBackward);
    usleep(50'000);
  }
  board->set_place(60, worker.argument);
  worker.note("stays", "");
  for (;;) pause();
}

/// Waits in a collective until its peer does too, then reports the peer as lost.
int call_then_lose_peer(Worker& worker) {
  const auto board = trainer::RankBoard::from_environment();
  board->set_place(3, "forward");
  const int all = board->add_group("among all ranks", {0, 1});
  board->wait(all, board->begin(all, trainer::CollectiveKind::kAllGather, std::stoll(worker.argument), "Float", "b"));
  worker.barrier();
  worker.link->report_failure(trainer::kPeerFailure, 3, "a gather failed: another rank was lost.");
  return trainer::kPeerFailure;
}

/// Waits in a collective for two seconds, and then reports its peer as lost.
int call_then_time_out(Worker& worker) {
  const auto board = trainer::RankBoard::from_environment();
  board->set_place(3, "forward");
  const int all = board->add_group("among all ranks", {0, 1});
  board->wait(all, board->begin(all, trainer::CollectiveKind::kAllGather, std::stoll(worker.argument), "Float", "b"));
  usleep(2'000'000);
  worker.link->report_failure(trainer::kPeerFailure, 3, "a gather failed: another rank was lost.");
  return trainer::kPeerFailure;
}

/// Sends malformed bytes.
int babble(Worker& worker) {
  const std::string bytes(100, '\xff');
  return write(std::stoi(worker.argument), bytes.data(), bytes.size()) > 0 ? hang(worker) : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2 || std::string(argv[1]) != "rank") return 99;
  const std::string link_number = variable(trainer::kLinkVariable);
  Worker worker;
  std::string behavior = variable("FAKE_" + std::to_string(worker.rank));
  if (behavior.empty()) behavior = variable("FAKE");
  const std::string verb = behavior.substr(0, behavior.find(':'));
  worker.argument = verb == behavior ? "" : behavior.substr(verb.size() + 1);
  if (verb == "babble") worker.argument = link_number;
  worker.note("pid", std::to_string(getpid()));
  const std::map<std::string, std::function<int(Worker&)>> verbs{
      {"finish", finish},
      {"finish_at", finish_at},
      {"exit", exit_silently},
      {"kill", kill_itself},
      {"read_truncated", read_truncated},
      {"die_in_lives", die_in_lives},
      {"fail", report_failure},
      {"lose_peer", lose_peer},
      {"hang", hang},
      {"train", train},
      {"live", live},
      {"environment", show_environment},
      {"use_store", use_store},
      {"leave_child", leave_child},
      {"babble", babble},
      {"call", call},
      {"call_then_time_out", call_then_time_out},
      {"update_then_stay", update_then_stay},
      {"call_then_lose_peer", call_then_lose_peer},
      {"note_environment", note_environment},
      {"publish", publish},
  };
  try {
    return verbs.at(verb)(worker);
  } catch (const std::exception& error) {
    worker.link->report_failure(trainer::kInternalFailure, -1, error.what());
    return trainer::kInternalFailure;
  }
}
