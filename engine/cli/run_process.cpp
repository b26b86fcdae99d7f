#include "engine/cli/run_process.h"

#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>

#include "engine/base/errors.h"
#include "engine/base/file_descriptor.h"

namespace trainer::cli {
namespace {

namespace fs = std::filesystem;

/// Whether the process has the file open.
bool has_open(pid_t pid, const fs::path& file) {
  struct stat wanted {};
  if (stat(file.c_str(), &wanted) != 0) return false;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(fmt::format("/proc/{}/fd", pid), error)) {
    struct stat found {};
    if (stat(entry.path().c_str(), &found) == 0 && found.st_dev == wanted.st_dev && found.st_ino == wanted.st_ino)
      return true;
  }
  return false;
}

/// Whether the process catches the signal, or takes it from a queue.
bool handles(pid_t pid, int signal) {
  std::ifstream status(fmt::format("/proc/{}/status", pid));
  unsigned long long handled = 0;
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("SigBlk:") || line.starts_with("SigCgt:"))
      handled |= std::strtoull(line.c_str() + sizeof("SigBlk:"), nullptr, 16);
  return (handled >> (signal - 1) & 1) != 0;
}

}  // namespace

void ask_to_save(const fs::path& folder, pid_t pid) {
  // The id may be given to another process at any time; the descriptor stays this one's.
  const FileDescriptor process(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  if (!process && errno == ESRCH)
    throw InputError("no run is using {}: process {}, which its lock names, has ended", folder.string(), pid);
  if (!has_open(pid, folder / ".lock") || !handles(pid, SIGUSR2))
    throw MachineError(
        "process {}, which the lock of {} names, is not provably the launcher of a run there: it was not asked to "
        "save\n  run the command as the user who started the run, on the same machine and in the same container",
        pid, folder.string());
  const long failed =
      process ? syscall(SYS_pidfd_send_signal, process.get(), SIGUSR2, nullptr, 0) : kill(pid, SIGUSR2);
  if (failed != 0)
    throw MachineError("cannot reach process {}, which uses {}: {}", pid, folder.string(), std::strerror(errno));
}

}  // namespace trainer::cli
