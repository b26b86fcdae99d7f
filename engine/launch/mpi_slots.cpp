#include "engine/launch/mpi_slots.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <sstream>

#include "engine/base/errors.h"
#include "engine/base/files.h"

namespace trainer::launch {
namespace {

namespace fs = std::filesystem;

/// The shell command of a slot: $0 is the folder. `end` closes when the supervisor ends for any reason; the folder is
/// then removed.
constexpr const char* kSeat =
    "umask 077; env -0 >\"$0/$OMPI_COMM_WORLD_RANK.new\" && mv \"$0/$OMPI_COMM_WORLD_RANK.new\" "
    "\"$0/$OMPI_COMM_WORLD_RANK\"; cat \"$0/end\"; rm -rf \"$0\"";

std::string find_mpirun() {
  const char* const path = std::getenv("PATH");
  std::istringstream folders(path != nullptr ? path : "");
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::string program = folder + "/mpirun";
    if (access(program.c_str(), X_OK) == 0) return program;
  }
  throw MachineError(
      "training.ddp_backend is mpi, but there is no mpirun in $PATH\n  install Open MPI (apt-get install openmpi-bin), "
      "or set it to gloo");
}

/// In memory if possible: the folder also holds the shared-memory files of ranks on one machine.
fs::path private_folder() {
  for (const fs::path& parent : {fs::path("/dev/shm"), fs::temp_directory_path()}) {
    std::string path = (parent / "trainer-mpi-XXXXXX").string();
    if (mkdtemp(path.data()) != nullptr) return path;
  }
  throw machine_error("create", fs::temp_directory_path() / "trainer-mpi-XXXXXX", errno);
}

/// Open MPI's settings for ranks on one machine; settings of the user take precedence. mpirun listens for daemons on
/// other machines, so it is restricted to the loopback interface. Ranks pause by themselves while they wait (see
/// MpiThread): with MPI's own yielding, a busy machine would run every other program first.
std::map<std::string, std::string> settings(const fs::path& folder) {
  std::map<std::string, std::string> all{{"OMPI_MCA_btl", "vader,self"},
                                         {"OMPI_MCA_pml", "ob1"},
                                         {"OMPI_MCA_plm", "isolated"},
                                         {"OMPI_MCA_oob_tcp_if_include", "lo"},
                                         {"OMPI_MCA_oob_tcp_disable_ipv6_family", "1"},
                                         {"OMPI_MCA_rmaps_base_oversubscribe", "1"},
                                         {"OMPI_MCA_hwloc_base_binding_policy", "none"},
                                         {"OMPI_MCA_mpi_yield_when_idle", "0"},
                                         {"OMPI_MCA_orte_tmpdir_base", folder.string()},
                                         {"OMPI_MCA_btl_vader_backing_directory", folder.string()}};
  if (geteuid() == 0) {  // otherwise mpirun refuses to run
    all["OMPI_ALLOW_RUN_AS_ROOT"] = "1";
    all["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] = "1";
  }
  std::erase_if(all, [](const auto& setting) { return std::getenv(setting.first.c_str()) != nullptr; });
  return all;
}

std::string read_what_is_there(int fd) {
  std::string text;
  char bytes[4096];
  fcntl(fd, F_SETFL, O_NONBLOCK);
  for (ssize_t count; (count = read(fd, bytes, sizeof bytes)) > 0;) text.append(bytes, static_cast<size_t>(count));
  return text;
}

/// The first line of text in mpirun's framed messages.
std::string first_words(const std::string& text) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.find_first_not_of("- ") != std::string::npos) return line;
  }
  return "no message";
}

}  // namespace

MpiSlots::MpiSlots(int64_t ranks, const sigset_t& mask) {
  const std::string mpirun = find_mpirun();
  folder_ = private_folder();
  const std::string end = (folder_ / "end").string();
  if (mkfifo(end.c_str(), 0600) != 0) throw machine_error("create", end, errno);
  end_.reset(open(end.c_str(), O_RDWR | O_CLOEXEC));  // not just for writing: that would wait for a reader
  if (!end_) throw machine_error("open", end, errno);
  mpirun_ = start_process({.words = {mpirun, "-n", std::to_string(ranks), "/bin/sh", "-c", kSeat, folder_.string()},
                           .environment = settings(folder_)},
                          mask);
}

MpiSlots::~MpiSlots() {
  end_.reset();
  constexpr int kTries = 200;  // of ten milliseconds
  for (int i = 0; i < kTries && mpirun_.pid > 0; ++i) {
    if (lost()) break;
    usleep(10'000);
  }
  if (mpirun_.pid > 0) {
    kill_group(mpirun_.pid);
    waitpid(mpirun_.pid, nullptr, 0);
  }
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
}

std::optional<std::string> MpiSlots::lost() {
  if (mpirun_.pid <= 0 || waitpid(mpirun_.pid, nullptr, WNOHANG) != mpirun_.pid) return std::nullopt;
  mpirun_.pid = 0;
  return "mpirun, which connects the ranks, ended: " + first_words(read_what_is_there(mpirun_.errors.get()));
}

}  // namespace trainer::launch
