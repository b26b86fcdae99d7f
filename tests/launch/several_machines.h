// Simulates several machines: supervisors that meet on 127.0.0.1, with scripted ranks.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "engine/base/errors.h"
#include "engine/base/files.h"
#include "engine/launch/address.h"
#include "engine/launch/run.h"
#include "tests/launch/left_over.h"

namespace trainer::launch {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

class SeveralMachines : public ::testing::Test {
 protected:
  using Behaviors = std::map<std::string, std::string>;

  SeveralMachines(int machines, int ranks_of_each) : pids_(static_cast<std::size_t>(machines), -1) {
    std::string pattern = (fs::temp_directory_path() / "machines_test.XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
    fs::create_directories(folder_ / "notes");
    plan_.source = "tests.yaml";
    plan_.config.output_dir = output().string();
    plan_.config.num_processes = machines * ranks_of_each;
    plan_.config.num_machines = machines;
    plan_.config.main_process_ip = "127.0.0.1";
    plan_.config.main_process_port = free_port();
    environment_["TRAINER_SECRET"] = "a secret";
  }
  ~SeveralMachines() override {
    for (const pid_t pid : pids_) {
      if (pid <= 0) continue;
      kill(pid, SIGCONT);
      kill(pid, SIGKILL);
      waitpid(pid, nullptr, 0);
    }
    fs::remove_all(folder_);
  }

  static int64_t free_port() {
    const FileDescriptor listener = listen_on(resolve("127.0.0.1", 0).at(0));
    const std::string text = own_address(listener.get()).text();
    return std::stoll(text.substr(text.rfind(':') + 1));
  }

  fs::path output() const { return folder_ / "output"; }
  pid_t& pid_of(int number) { return pids_.at(static_cast<std::size_t>(number)); }

  /// Starts machine `number` with `behaviors` and the current values of plan_, patience_ and environment_.
  void start(int number, const Behaviors& behaviors) {
    plan_.config.machine_rank = number;
    pid_of(number) = fork();
    if (pid_of(number) != 0) return;
    const fs::path screen = folder_ / fmt::format("screen-{}", number);
    dup2(open(screen.c_str(), O_CREAT | O_WRONLY | O_APPEND, 0600), STDERR_FILENO);
    for (const auto& [name, value] : environment_) setenv(name.c_str(), value.c_str(), 1);
    for (const auto& [name, value] : behaviors) setenv(name.c_str(), value.c_str(), 1);
    setenv("FAKE_NOTES", (folder_ / "notes").c_str(), 1);
    setenv("FAKE_OUTPUT", output().c_str(), 1);
    try {
      _exit(run(plan_, FAKE_WORKER, patience_, prepare_));
    } catch (const Error& error) {
      fmt::print(stderr, "{}\n", error.what());
      std::fflush(stderr);
      _exit(error.code());
    }
  }

  int finish(int number) {
    int status = 0;
    waitpid(std::exchange(pid_of(number), -1), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

  void wait_for(const std::function<bool()>& condition) {
    constexpr int kTries = 60'000;  // one millisecond each: long enough on any machine
    for (int i = 0; i < kTries; ++i, usleep(1000)) {
      if (condition()) return;
    }
    FAIL() << screens();
  }
  bool is_noted(const std::string& note) const { return fs::exists(folder_ / "notes" / note); }
  void wait_for_note(const std::string& note) {
    wait_for([&] { return is_noted(note); });
  }
  /// Removes those that are there: ranks of other machines may write meanwhile.
  void forget_notes() const {
    for (const fs::directory_entry& note : fs::directory_iterator(folder_ / "notes")) fs::remove_all(note.path());
  }
  std::string noted(const std::string& note) const { return read_file(folder_ / "notes" / note); }

  std::string screen(int number) const {
    const fs::path path = folder_ / fmt::format("screen-{}", number);
    return fs::exists(path) ? read_file(path) : "";
  }
  std::string screens() const {
    std::string all;
    for (std::size_t i = 0; i < pids_.size(); ++i)
      all += fmt::format("--- machine {}\n{}", i, screen(static_cast<int>(i)));
    return all;
  }
  bool said(int number, const std::string& text) const { return screen(number).find(text) != std::string::npos; }

  bool anyone_left() { return launch::anyone_left(folder_ / "notes"); }
  fs::path folder_;
  config::Plan plan_;
  Patience patience_{.join = std::chrono::seconds(60)};
  Prepare prepare_;
  std::map<std::string, std::string> environment_;
  std::vector<pid_t> pids_;
};

}  // namespace trainer::launch
