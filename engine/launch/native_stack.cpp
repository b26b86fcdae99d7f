#include "engine/launch/native_stack.h"

#include <cxxabi.h>
#include <elfutils/libdwfl.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <sstream>

#include "engine/base/file_descriptor.h"
#include "engine/launch/held_process.h"

namespace trainer::launch {
namespace {

constexpr size_t kMostFrames = 64;
constexpr int kStackPatience = 5000;  // milliseconds
constexpr int kStackOutput = 3;       // the first descriptor after the standard ones

struct EndDwfl {
  void operator()(Dwfl* dwfl) const { dwfl_end(dwfl); }
};

/// The demangled name of a function, without its arguments.
std::string readable(const char* symbol) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> demangled(abi::__cxa_demangle(symbol, nullptr, nullptr, &status),
                                                              &std::free);
  std::string name = status == 0 ? demangled.get() : symbol;
  const std::string nameless = "(anonymous namespace)::";
  for (size_t at = name.find(nameless); at != std::string::npos; at = name.find(nameless))
    name.erase(at, nameless.size());
  return name.substr(0, name.find('('));
}

struct Frames {
  Dwfl* dwfl;
  std::vector<std::string> names{};
};

int add_frame(Dwfl_Frame* frame, void* into) {
  auto& frames = *static_cast<Frames*>(into);
  Dwarf_Addr address = 0;
  bool is_activation = false;
  if (!dwfl_frame_pc(frame, &address, &is_activation)) return DWARF_CB_ABORT;
  if (!is_activation) --address;  // the call's own address instead of the return address
  Dwfl_Module* const module = dwfl_addrmodule(frames.dwfl, address);
  const char* const symbol = module != nullptr ? dwfl_module_addrname(module, address) : nullptr;
  frames.names.push_back(symbol != nullptr ? readable(symbol) : "?");
  return frames.names.size() < kMostFrames && frames.names.back() != "main" ? DWARF_CB_OK : DWARF_CB_ABORT;
}

/// Blocks while the process answers no tracer.
std::vector<std::string> read_stack(pid_t pid) {
  static char* no_debug_files = nullptr;  // function names are enough
  static const Dwfl_Callbacks callbacks{.find_elf = dwfl_linux_proc_find_elf,
                                        .find_debuginfo = dwfl_standard_find_debuginfo,
                                        .section_address = nullptr,
                                        .debuginfo_path = &no_debug_files};
  const std::unique_ptr<Dwfl, EndDwfl> dwfl(dwfl_begin(&callbacks));
  if (!dwfl || dwfl_linux_proc_report(dwfl.get(), pid) != 0 || dwfl_report_end(dwfl.get(), nullptr, nullptr) != 0 ||
      dwfl_linux_proc_attach(dwfl.get(), pid, false) != 0)
    return {};
  Frames frames{dwfl.get()};
  dwfl_getthread_frames(dwfl.get(), pid, add_frame, &frames);  // after an error, the frames found so far are shown
  return frames.names;
}

[[noreturn]] void write_stack(pid_t pid, int descriptor) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (descriptor != kStackOutput) dup3(descriptor, kStackOutput, O_CLOEXEC);
  close_range(kStackOutput + 1, ~0u, 0);  // the kernel may hold this process too: our port must not stay open with it
  std::string text;
  for (const std::string& name : read_stack(pid)) text += name + "\n";
  [[maybe_unused]] const ssize_t written = write(kStackOutput, text.data(), text.size());  // a pipe holds it
  _exit(0);
}

}  // namespace

std::vector<std::string> native_stack(pid_t pid) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return {};
  const FileDescriptor answer(ends[0]);
  FileDescriptor other(ends[1]);
  const pid_t reader = fork();
  if (reader == 0) write_stack(pid, other.get());
  other.reset();
  if (reader < 0) return {};
  pollfd event{answer.get(), POLLIN, 0};
  std::string text(1 << 16, '\0');
  const ssize_t size = poll(&event, 1, kStackPatience) == 1 ? read(answer.get(), text.data(), text.size()) : 0;
  kill(reader, SIGKILL);
  reap_within(reader, std::chrono::seconds(1));
  std::istringstream lines(text.substr(0, static_cast<size_t>(std::max<ssize_t>(size, 0))));
  std::vector<std::string> names;
  for (std::string name; std::getline(lines, name);) names.push_back(name);
  return names;
}

}  // namespace trainer::launch
