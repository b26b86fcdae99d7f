#include "engine/cli/worker.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "engine/base/beside_program.h"
#include "engine/base/errors.h"
#include "engine/base/files.h"
#include "engine/base/human.h"
#include "engine/config/plan/handover.h"

namespace trainer::cli {
namespace {

/// A file in memory that holds `text`, read from the start, and survives exec.
int memory_file(const std::string& text) {
  const int fd = memfd_create("plan", 0);
  if (fd < 0) throw machine_error("create", "a file in memory", errno);
  write_all(fd, text, "a file in memory");
  lseek(fd, 0, SEEK_SET);
  return fd;
}

std::string path_beside(const char* name) {
  const auto path = beside_program(name);
  if (!path.has_parent_path())
    throw MachineError("cannot find {}: /proc/self/exe, which names trainer's folder, can't be read: mount /proc",
                       name);
  if (access(path.c_str(), X_OK) != 0) {
    throw MachineError("{} is not next to trainer ({}): build it, or copy it there", name, path.string());
  }
  return path;
}

/// The program that kWorkerVariable names; "" without it.
std::string named_worker() {
  const char* const path = std::getenv(kWorkerVariable);
  if (path == nullptr || *path == '\0') return "";
  if (access(path, X_OK) != 0) throw machine_error("run", fmt::format("{} ({})", path, kWorkerVariable), errno);
  return path;
}

/// libtorch's own start takes some 450 MB of addresses, and what fails in it is reported by nobody.
void check_address_space() {
  constexpr rlim_t kLeast = rlim_t{512} << 20;
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur >= kLeast) return;
  throw MachineError(
      "out of memory: this process may use {} of addresses (ulimit -v), and libtorch alone takes more than {}.\n"
      "  Raise the limit, or remove it: ulimit -v unlimited",
      human_bytes(static_cast<int64_t>(limit.rlim_cur)), human_bytes(static_cast<int64_t>(kLeast)));
}

}  // namespace

std::string worker_path() {
  check_address_space();
  const std::string named = named_worker();
  return named.empty() ? path_beside("trainer-worker") : named;
}

std::string prepare_path() {
  return path_beside("trainer-prepare");
}

void become_worker(const Arguments& arguments, const config::Plan* plan) {
  become_program(worker_path(), arguments, plan);
}

void become_program(const std::string& path, const Arguments& arguments, const config::Plan* plan) {
  if (plan) setenv(config::kPlanVariable, std::to_string(memory_file(config::to_text(*plan))).c_str(), 1);
  std::vector<char*> words{const_cast<char*>(path.c_str())};
  for (const std::string& argument : arguments) words.push_back(const_cast<char*>(argument.c_str()));
  words.push_back(nullptr);
  std::fflush(nullptr);
  execv(path.c_str(), words.data());
  throw machine_error("run", path, errno);
}

}  // namespace trainer::cli
