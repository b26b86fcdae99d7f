#include "engine/launch/held_process.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <system_error>

#include <fmt/format.h>

#include "engine/base/errors.h"

namespace trainer::launch {
namespace {

namespace fs = std::filesystem;

/// The rest of the line of a small file that begins with `key`; "" if there is none.
std::string line_after(const std::string& file, const std::string& key) {
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);)
    if (const auto at = line.find(key); at != std::string::npos) return line.substr(at + key.size());
  return "";
}

/// The frozen cgroup of a process; "" if it is in none. Version 1 has a hierarchy of its own for this.
std::string frozen_cgroup(pid_t pid, const std::string& root) {
  const std::string groups = fmt::format("{}/proc/{}/cgroup", root, pid), mount = root + "/sys/fs/cgroup";
  if (const std::string group = line_after(groups, "freezer:"); !group.empty())
    if (const std::string state = line_after(mount + "/freezer" + group + "/freezer.state", "FR");
        state == "OZEN" || state == "EEZING")
      return group;
  if (const std::string group = line_after(groups, "0::"); !group.empty())
    if (line_after(mount + group + "/cgroup.events", "frozen ") == "1") return group;
  return "";
}

std::string uninterruptible(const fs::path& thread) {
  const std::string state = line_after(thread / "status", "State:\t");
  if (state.empty() || state.front() != 'D') return "";
  std::string place;
  std::getline(std::ifstream(thread / "wchan"), place);
  return fmt::format("state {}{}", state, place.empty() || place == "0" ? "" : " in " + place);
}

}  // namespace

int wait_for_end(pid_t child) {
  int status = 0;
  pid_t ended = 0;
  do ended = waitpid(child, &status, 0);
  while (ended < 0 && errno == EINTR);
  return ended == child ? status : W_EXITCODE(kInternalFailure, 0);
}

bool reap_within(pid_t child, std::chrono::milliseconds patience) {
  constexpr std::chrono::milliseconds kLook{2};
  const auto end = std::chrono::steady_clock::now() + patience;
  while (waitpid(child, nullptr, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() >= end) return false;
    usleep(std::chrono::microseconds(kLook).count());
  }
  return true;
}

std::string uninterruptible(pid_t pid, bool main_thread, const std::string& root) {
  const fs::path threads = fmt::format("{}/proc/{}/task", root, pid);
  if (main_thread) return uninterruptible(threads / std::to_string(pid));
  std::error_code ended;  // then there are no more threads
  for (fs::directory_iterator thread(threads, ended), end; thread != end; thread.increment(ended))
    if (std::string state = uninterruptible(thread->path()); !state.empty()) return state;
  return "";
}

std::string what_holds(pid_t pid, const std::string& root) {
  if (const std::string group = frozen_cgroup(pid, root); !group.empty())
    return fmt::format("its cgroup {} is frozen", group);
  const std::string folder = fmt::format("{}/proc/{}", root, pid);
  if (const std::string tracer = line_after(folder + "/status", "TracerPid:\t"); !tracer.empty() && tracer != "0")
    return fmt::format("it is traced by process {}", tracer);
  // Its first thread may have ended (a zombie) while another one is held.
  if (const std::string held = uninterruptible(pid, false, root); !held.empty()) return "it is in " + held;
  const std::string state = line_after(folder + "/status", "State:\t");
  return state.empty() ? "its state can't be read" : "it is in state " + state;
}

}  // namespace trainer::launch
