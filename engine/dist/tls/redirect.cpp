#include "engine/dist/tls/redirect.h"

#include <dlfcn.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <vector>

#include "engine/base/errors.h"

namespace trainer::dist::tls {
namespace {

/// What the dynamic section says of a library's calls of other libraries.
struct Calls {
  uintptr_t base = 0;
  const ElfW(Sym) * symbols = nullptr;
  const char* names = nullptr;
  const ElfW(Rela) * begin = nullptr;
  std::size_t count = 0;

  explicit Calls(const link_map& library) : base(library.l_addr) {
    for (const ElfW(Dyn)* entry = library.l_ld; entry->d_tag != DT_NULL; ++entry) {
      void* const at = reinterpret_cast<void*>(entry->d_un.d_ptr);
      if (entry->d_tag == DT_SYMTAB) symbols = static_cast<const ElfW(Sym)*>(at);
      if (entry->d_tag == DT_STRTAB) names = static_cast<const char*>(at);
      if (entry->d_tag == DT_JMPREL) begin = static_cast<const ElfW(Rela)*>(at);
      if (entry->d_tag == DT_PLTRELSZ) count = entry->d_un.d_val / sizeof(ElfW(Rela));
    }
  }

  /// Where the address of the function `name` is; null: it isn't called.
  void** slot(const char* name) const {
    for (std::size_t i = 0; i < count; ++i) {
      const ElfW(Sym)& symbol = symbols[ELF64_R_SYM(begin[i].r_info)];
      if (std::strcmp(names + symbol.st_name, name) == 0) return reinterpret_cast<void**>(base + begin[i].r_offset);
    }
    return nullptr;
  }
};

const link_map& library_of(const void* inside) {
  Dl_info about{};
  link_map* library = nullptr;
  const int found = dladdr1(inside, &about, reinterpret_cast<void**>(&library), RTLD_DL_LINKMAP);
  require(found != 0 && library != nullptr, "no library is loaded at {}", inside);
  return *library;
}

}  // namespace

void redirect_calls(const void* inside, std::initializer_list<Redirection> redirections) {
  const link_map& library = library_of(inside);
  const Calls calls(library);
  std::vector<void**> slots;
  for (const Redirection& redirection : redirections) {
    void** const slot = calls.slot(redirection.name);
    if (slot == nullptr) throw MachineError("{} does not call {}()", library.l_name, redirection.name);
    const auto page = reinterpret_cast<uintptr_t>(slot) & ~(static_cast<uintptr_t>(sysconf(_SC_PAGESIZE)) - 1);
    // Writable already, unless the library was linked with -z now.
    const int allowed = mprotect(reinterpret_cast<void*>(page), 1, PROT_READ | PROT_WRITE);
    if (allowed != 0) throw MachineError("the calls of {} cannot be redirected: {}", library.l_name, std::strerror(errno));
    slots.push_back(slot);
  }
  auto slot = slots.begin();
  for (const Redirection& redirection : redirections) std::atomic_ref<void*>(**slot++).store(redirection.to);
}

}  // namespace trainer::dist::tls
