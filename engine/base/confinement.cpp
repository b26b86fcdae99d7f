#include "engine/base/confinement.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace trainer {
namespace {

#if defined(__x86_64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
#else
constexpr uint32_t kArchitecture = 0;
#endif
constexpr uint32_t kOtherTable = 0x40000000;  // numbers of x86's second table of system calls (x32)

constexpr uint32_t kForbidden[] = {
#ifdef SYS_fork
    SYS_fork,
    SYS_vfork,
#endif
    SYS_execve,
    SYS_execveat,
    SYS_kill,
    SYS_socket,
    SYS_socketpair,
    SYS_connect,
    SYS_bind,
    SYS_listen,
    SYS_accept,
    SYS_accept4,
    SYS_ptrace,
    SYS_process_vm_readv,
    SYS_process_vm_writev,
    SYS_pidfd_open,
    SYS_pidfd_getfd,
    SYS_unshare,
    SYS_setns,
    SYS_mount,
    SYS_umount2,
    SYS_pivot_root,
    SYS_chroot,
    SYS_bpf,
    SYS_perf_event_open,
    SYS_userfaultfd,
    SYS_io_uring_setup,
    SYS_keyctl,
    SYS_add_key,
    SYS_request_key,
    SYS_init_module,
    SYS_finit_module,
    SYS_delete_module,
    SYS_kexec_load,
};

/// A program of the kernel's filter language (BPF), which is run at each system call.
[[maybe_unused]] std::vector<sock_filter> filter() {
  constexpr auto kNumber = static_cast<uint32_t>(offsetof(seccomp_data, nr));
  constexpr auto kArch = static_cast<uint32_t>(offsetof(seccomp_data, arch));
  constexpr auto kFirstArgument = static_cast<uint32_t>(offsetof(seccomp_data, args));  // its lower half
  std::vector<sock_filter> steps;
  const auto load = [&](uint32_t offset) { steps.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offset)); };
  // Returns an errno where the comparison holds, or where it doesn't.
  const auto refuse = [&](uint16_t compare, uint32_t value, int error, bool where_it_holds = true) {
    steps.push_back(BPF_JUMP(static_cast<uint16_t>(BPF_JMP | compare | BPF_K), value,
                             static_cast<uint8_t>(where_it_holds ? 0 : 1),
                             static_cast<uint8_t>(where_it_holds ? 1 : 0)));
    steps.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<uint32_t>(error)));
  };
  load(kArch);
  refuse(BPF_JEQ, kArchitecture, EPERM, false);
  load(kNumber);
  refuse(BPF_JGE, kOtherTable, EPERM);
  for (const uint32_t call : kForbidden) refuse(BPF_JEQ, call, EPERM);
  refuse(BPF_JEQ, SYS_clone3, ENOSYS);  // its flags can't be read here; the C library falls back to clone
  // clone may make threads, not processes.
  steps.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 3));
  load(kFirstArgument);
  refuse(BPF_JSET, CLONE_THREAD, EPERM, false);
  steps.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  return steps;
}

}  // namespace

bool confine() {
  const rlimit none{0, 0};
  setrlimit(RLIMIT_CORE, &none);
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return false;
#ifdef __SANITIZE_ADDRESS__
  return false;  // its leak detection starts a process that traces this one
#else
  if (kArchitecture == 0) return false;
  std::vector<sock_filter> steps = filter();
  sock_fprog program{static_cast<unsigned short>(steps.size()), steps.data()};
  return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0;
#endif
}

}  // namespace trainer
