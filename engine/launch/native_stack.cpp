#include "engine/launch/native_stack.h"

#include <cxxabi.h>
#include <elfutils/libdwfl.h>

#include <cstdlib>
#include <memory>

namespace trainer::launch {
namespace {

constexpr size_t kMostFrames = 64;

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

}  // namespace

std::vector<std::string> native_stack(pid_t pid) {
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

}  // namespace trainer::launch
