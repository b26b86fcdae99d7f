#include "engine/launch/together.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <cerrno>
#include <csignal>

#include "engine/base/errors.h"
#include "engine/base/files.h"
#include "engine/launch/folder_sign.h"
#include "engine/launch/held_process.h"
#include "engine/launch/joint.h"
#include "engine/launch/meeting.h"
#include "engine/launch/messages.h"

namespace trainer::launch {
namespace {

namespace fs = std::filesystem;

/// Runs `prepare` in a separate process: it may take long, and the connections must be served.
class Preparing {
 public:
  explicit Preparing(const Prepare& prepare) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) throw machine_error("open", "a pipe", errno);
    end_.reset(ends[0]);
    FileDescriptor other(ends[1]);
    const pid_t parent = getpid();
    child_ = fork();
    if (child_ < 0) throw machine_error("start", "the preparation", errno);
    if (child_ == 0) run(prepare, other.get(), parent);
  }
  ~Preparing() {
    if (child_ <= 0) return;
    kill(child_, SIGTERM);
    if (reap_within(child_, kReapPatience)) return;
    kill(child_, SIGKILL);
    reap_within(child_, kReapPatience);
  }

  int fd() const { return end_.get(); }

  /// Reads the available output; true at its end.
  bool has_ended() {
    pollfd event{fd(), POLLIN, 0};
    char bytes[4096];
    while (poll(&event, 1, 0) == 1) {
      const ssize_t count = read(fd(), bytes, sizeof(bytes));
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) return true;
      said_.append(bytes, static_cast<std::size_t>(count));
    }
    return false;
  }

  Preparation result() {
    const int status = wait_for_end(std::exchange(child_, 0));
    const int code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    if (code != kDone && said_.empty()) said_ = fmt::format("preparing the data ended with exit code {}", code);
    return {code, said_};
  }

 private:
  [[noreturn]] static void run(const Prepare& prepare, int fd, pid_t parent) {
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) _exit(kMachineFailure);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    Preparation result;
    try {
      result = prepare();
    } catch (const Error& error) {
      result = {error.code(), error.what()};
    } catch (const std::exception& error) {
      result = {kInternalFailure, error.what()};
    }
    for (std::size_t sent = 0; sent < result.message.size();) {
      const ssize_t count = write(fd, result.message.data() + sent, result.message.size() - sent);
      if (count <= 0) break;
      sent += static_cast<std::size_t>(count);
    }
    _exit(result.code);
  }

  FileDescriptor end_;
  pid_t child_ = 0;
  std::string said_;
};

std::string show_folder(const fs::path& folder, Machines& machines, SignalQueue& signals) {
  std::vector<LinkMessage> answers;
  {
    const FolderSign sign(folder);
    machines.send_all({.op = LinkOp::kLook, .strings = {sign.name(), sign.content()}});
    answers = collect(LinkOp::kSeen, machines, signals);
  }
  std::string who;
  for (std::size_t i = 0; i < answers.size() && who.empty(); ++i) {
    if (answers[i].code != kDone)
      who = fmt::format("{}: {}", machines.others()[i].name,
                        answers[i].strings.empty() ? "" : answers[i].strings.front());
  }
  machines.send_all({.op = LinkOp::kSeen, .strings = {who}});
  return who;
}

}  // namespace

Terms hear_terms(Machines& machines, SignalQueue& signals) {
  return read_terms(hear_host({LinkOp::kTerms}, machines, signals));
}

std::string who_sees_another_folder(const fs::path& folder, bool is_leader, Machines& machines, SignalQueue& signals) {
  if (is_leader) return show_folder(folder, machines, signals);
  const LinkMessage look = hear_host({LinkOp::kLook}, machines, signals);
  const std::string why =
      look.strings.size() == 2 ? why_unseen(folder, look.strings[0], look.strings[1]) : "it broke the protocol";
  machines.send(0, {.op = LinkOp::kSeen, .code = why.empty() ? kDone : kMachineFailure, .strings = {why}});
  const LinkMessage all = hear_host({LinkOp::kSeen}, machines, signals);
  return all.strings.empty() ? "" : all.strings.front();
}

Preparation prepare_beside(const Prepare& prepare, Machines& machines, SignalQueue& signals) {
  Preparing preparing(prepare);
  serve_until(machines, signals, preparing.fd(), [&] { return preparing.has_ended(); });
  return preparing.result();
}

Preparation prepare_together(const Prepare& prepare, bool is_leader, Machines& machines, SignalQueue& signals) {
  Preparation failed = prepare_beside(prepare, machines, signals);
  if (!is_leader) {
    machines.send(0, {.op = LinkOp::kReady, .code = failed.code, .strings = {failed.message}});
    hear_host({LinkOp::kGo}, machines, signals);
    return {};
  }
  const std::vector<LinkMessage> answers = collect(LinkOp::kReady, machines, signals);
  for (std::size_t i = 0; i < answers.size() && failed.code == kDone; ++i) {
    if (answers[i].code == kDone) continue;
    failed = {answers[i].code, fmt::format("{}: {}", machines.others()[i].name,
                                           answers[i].strings.empty() ? "" : answers[i].strings.front())};
  }
  if (failed.code == kDone) machines.send_all({.op = LinkOp::kGo});
  return failed;
}

}  // namespace trainer::launch
