#include "engine/launch/tracking.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "engine/base/beside_program.h"
#include "engine/base/errors.h"
#include "engine/base/files.h"
#include "engine/launch/held_process.h"
#include "engine/launch/outcome.h"
#include "engine/launch/screen.h"

namespace trainer::launch {
namespace {

constexpr std::chrono::seconds kTrackerPatience{30};  // more than the tracker allows itself

/// MLflow's word for how a run ended.
const char* mlflow_status(int code) {
  if (code == kDone) return "FINISHED";
  return code == kInterrupted || code == kStopRequested ? "KILLED" : "FAILED";
}

std::pair<FileDescriptor, FileDescriptor> make_pipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw machine_error("create", "a pipe", errno);
  return {FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

/// Whether the ranks will continue from a checkpoint in output_dir.
bool resumes_here(const config::Config& config) {
  return config.checkpoint.resume_from_checkpoint != "false" && !newest_checkpoint(config.output_dir).empty();
}

}  // namespace

Tracking::Tracking(const config::Config& config) {
  const auto& targets = config.logging.report_to;
  if (std::find(targets.begin(), targets.end(), "mlflow") == targets.end()) return;
  start();
  introduce(config);
}

void Tracking::start() {
  const std::string program = beside_program("trainer-tracker").string();
  auto [its_input, input] = make_pipe();
  auto [answer, its_answer] = make_pipe();
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_adddup2(&files, its_input.get(), STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&files, its_answer.get(), STDOUT_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setpgroup(&attributes, 0);  // a terminal's Ctrl-C is the launcher's
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
  char* const words[] = {const_cast<char*>(program.c_str()), nullptr};
  const int error = posix_spawn(&pid_, program.c_str(), &files, &attributes, words, environ);
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&attributes);
  if (error != 0) {
    pid_ = 0;
    throw MachineError(
        "logging.report_to has mlflow, but {} cannot be started: {}\n  It is built where libcurl is installed (apt-get "
        "install libcurl4-openssl-dev).",
        program, std::strerror(error));
  }
  input_ = std::move(input);
  answer_ = std::move(answer);
}

void Tracking::introduce(const config::Config& config) {
  const nlohmann::json job = {
      {"output_dir", config.output_dir}, {"resumes", resumes_here(config)}, {"version", TRAINER_VERSION}};
  write_all(input_.get(), job.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n", "trainer-tracker");
  std::string refusal;
  char bytes[1024];
  for (ssize_t count; (count = read(answer_.get(), bytes, sizeof bytes)) > 0 || (count < 0 && errno == EINTR);)
    if (count > 0) refusal.append(bytes, static_cast<size_t>(count));
  answer_ = FileDescriptor();
  if (refusal.empty()) return;
  input_ = FileDescriptor();
  reap_within(std::exchange(pid_, 0), kTrackerPatience);
  throw ConfigError("{}", refusal);
}

void Tracking::end(int code) {
  if (pid_ == 0) return;
  const std::string status = std::string(mlflow_status(code)) + "\n";
  const ssize_t sent = write(input_.get(), status.data(), status.size());  // fails if it died: SIGPIPE is ignored
  input_ = FileDescriptor();
  if (reap_within(pid_, sent < 0 ? kReapPatience : kTrackerPatience)) {
    pid_ = 0;
    return;
  }
  say("trainer: trainer-tracker did not end in time\n");
  kill(pid_, SIGKILL);
  reap_within(std::exchange(pid_, 0), kReapPatience);
}

Tracking::~Tracking() {
  if (pid_ == 0) return;
  input_ = FileDescriptor();
  reap_within(pid_, kTrackerPatience);
}

}  // namespace trainer::launch
