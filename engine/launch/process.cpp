#include "engine/launch/process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "engine/base/errors.h"
#include "engine/base/files.h"
#include "engine/base/link_protocol.h"
#include "engine/launch/held_process.h"

namespace trainer::launch {
namespace {

/// Everything a child needs between fork and exec, prepared before the fork: the child must not allocate.
struct Prepared {
  std::vector<std::string> environment;
  std::vector<char*> argv;
  std::vector<char*> envp;
  FileDescriptor child_link;
  FileDescriptor child_errors;
  FileDescriptor nothing;  // /dev/null
  FileDescriptor exec_error;
  sigset_t mask{};
  pid_t parent = 0;
  bool on_terminal = false;
  int inherited = -1;
  std::optional<cpu_set_t> cpus;
};

std::vector<std::string> merged_environment(const std::map<std::string, std::string>& added) {
  std::vector<std::string> merged;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    std::string text = *entry;
    if (!added.contains(text.substr(0, text.find('=')))) merged.push_back(std::move(text));
  }
  for (const auto& [name, value] : added) merged.push_back(name + "=" + value);
  return merged;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (std::string& text : texts) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

MachineError start_error(const std::string& program, int error) {
  if (error == EAGAIN) {
    return MachineError(
        "cannot start {}: the process limit is reached\n  raise it with `ulimit -u`, or in the "
        "container's settings",
        program);
  }
  return machine_error("start", program, error);
}

void make_pipe(const std::string& program, FileDescriptor& read_end, FileDescriptor& write_end) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw start_error(program, errno);
  read_end.reset(ends[0]);
  write_end.reset(ends[1]);
}

/// Runs in the child. Only calls that are safe after fork.
[[noreturn]] void become_rank(const Prepared& prepared) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  prctl(PR_SET_PTRACER, prepared.parent);                    // and its children: native_stack() reads the stack in one
  if (getppid() != prepared.parent) _exit(kMachineFailure);  // the parent died before prctl
  signal(SIGTTOU, SIG_IGN);  // `stty tostop` must not stop a rank: its group is never the terminal's foreground
  dup2(prepared.nothing.get(), STDIN_FILENO);
  if (!prepared.on_terminal) {
    dup2(prepared.nothing.get(), STDOUT_FILENO);
    dup2(prepared.child_errors.get(), STDERR_FILENO);
  }
  fcntl(prepared.child_link.get(), F_SETFD, 0);
  if (prepared.inherited >= 0) fcntl(prepared.inherited, F_SETFD, 0);
  if (prepared.cpus) sched_setaffinity(0, sizeof *prepared.cpus, &*prepared.cpus);
  signal(SIGPIPE, SIG_DFL);  // ignoring it is for the launcher only
  sigprocmask(SIG_SETMASK, &prepared.mask, nullptr);
  execve(prepared.argv[0], prepared.argv.data(), prepared.envp.data());
  const int error = errno;
  [[maybe_unused]] ssize_t written = write(prepared.exec_error.get(), &error, sizeof(error));
  _exit(127);
}

}  // namespace

Process start_process(const Command& command, const sigset_t& mask) {
  const std::string& program = command.words.front();
  Process process;
  Prepared prepared;
  prepared.mask = mask;
  prepared.parent = getpid();
  prepared.on_terminal = command.on_terminal;
  prepared.inherited = command.inherited;
  prepared.cpus = command.cpus;
  prepared.nothing.reset(open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!prepared.nothing) throw machine_error("open", "/dev/null", errno);
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) throw start_error(program, errno);
  process.link.reset(pair[0]);
  prepared.child_link.reset(pair[1]);
  if (!command.on_terminal) make_pipe(program, process.errors, prepared.child_errors);
  FileDescriptor exec_error;
  make_pipe(program, exec_error, prepared.exec_error);
  auto environment = command.environment;
  environment[kLinkVariable] = std::to_string(prepared.child_link.get());
  prepared.environment = merged_environment(environment);
  prepared.envp = pointers(prepared.environment);
  auto words = command.words;
  prepared.argv = pointers(words);

  process.pid = fork();
  if (process.pid < 0) throw start_error(program, errno);
  if (process.pid == 0) become_rank(prepared);
  setpgid(process.pid, process.pid);  // also in the parent, so that the group exists when we return
  prepared.exec_error.reset();
  int error = 0;
  ssize_t count = 0;
  do count = read(exec_error.get(), &error, sizeof(error));
  while (count < 0 && errno == EINTR);
  if (count == static_cast<ssize_t>(sizeof(error))) {
    wait_for_end(process.pid);
    throw start_error(program, error);
  }
  return process;
}

void kill_group(pid_t leader) {
  kill(-leader, SIGKILL);
}

}  // namespace trainer::launch
