#include "engine/cli/worker_child.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>

#include <fmt/format.h>

#include "engine/base/beside_program.h"
#include "engine/base/errors.h"
#include "engine/base/files.h"
#include "engine/base/uncaught.h"
#include "engine/cli/worker.h"

namespace trainer::cli {
namespace {

/// In the child: replaces it with the program, or writes to `errors` why that failed, and exits.
[[noreturn]] void become(std::string (*path)(), const Arguments& arguments, const config::Plan* plan, int errors) {
  try {
    become_program(path(), arguments, plan);
  } catch (const std::exception& error) {
    _exit(end_uncaught(error, errors));
  }
}

pid_t fork_here() {
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child < 0) throw machine_error("start", "trainer-worker", errno);
  return child;
}

int exit_code_of(pid_t child) {
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

std::string read_to_end(int fd) {
  std::string text;
  char buffer[4096];
  for (ssize_t count; (count = read(fd, buffer, sizeof buffer)) != 0;) {
    if (count > 0) text.append(buffer, static_cast<std::size_t>(count));
    if (count < 0 && errno != EINTR) break;
  }
  return text;
}

int run_program(std::string (*path)(), const Arguments& arguments, const config::Plan& plan) {
  path();  // throws if the program is missing, before anything is started
  const pid_t child = fork_here();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    become(path, arguments, &plan, STDERR_FILENO);
  }
  return exit_code_of(child);
}

/// The program's standard output; nothing when it fails.
std::optional<std::string> ask_program(std::string (*path)(), const Arguments& arguments, const config::Plan* plan) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return std::nullopt;
  const pid_t child = fork_here();
  if (child == 0) {
    const int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);
    dup2(nowhere, STDIN_FILENO);
    dup2(ends[1], STDOUT_FILENO);
    dup2(nowhere, STDERR_FILENO);
    become(path, arguments, plan, STDERR_FILENO);
  }
  close(ends[1]);
  std::string text = read_to_end(ends[0]);
  close(ends[0]);
  return exit_code_of(child) == kDone ? std::optional(std::move(text)) : std::nullopt;
}

/// Runs a program that writes to its standard output why it fails, if it does. `doing` completes "was killed".
launch::Preparation run_preparation(std::string (*path)(), const Arguments& arguments, const config::Plan& plan,
                                    const char* doing) {
  path();  // throws if the program is missing, before anything is started
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw machine_error("open", "a pipe", errno);
  const pid_t child = fork_here();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    dup2(ends[1], STDOUT_FILENO);
    become(path, arguments, &plan, STDOUT_FILENO);
  }
  close(ends[1]);
  std::string said = read_to_end(ends[0]);
  close(ends[0]);
  while (said.ends_with('\n')) said.pop_back();
  const int code = exit_code_of(child);
  if (code > 128 && said.empty()) said = fmt::format("{} was killed by signal {}", doing, code - 128);
  return {code, said};
}

}  // namespace

std::optional<std::string> ask_worker(const Arguments& arguments, const config::Plan* plan) {
  return ask_program(worker_path, arguments, plan);
}

std::optional<std::string> ask_prepare(const Arguments& arguments, const config::Plan* plan) {
  return ask_program(prepare_path, arguments, plan);
}

std::optional<std::string> ask_trainer(const Arguments& arguments) {
  return ask_program([] { return beside_program("trainer").string(); }, arguments, nullptr);
}

int run_worker(const Arguments& arguments, const config::Plan& plan) {
  return run_program(worker_path, arguments, plan);
}

launch::Preparation run_prepare(const config::Plan& plan, int64_t free_gpu_bytes) {
  launch::Preparation done = run_preparation(prepare_path, {}, plan, "tokenization");
  if (done.code != kDone || free_gpu_bytes == 0) return done;
  return run_preparation(worker_path, {"fit", std::to_string(free_gpu_bytes)}, plan, "planning the memory");
}

}  // namespace trainer::cli
