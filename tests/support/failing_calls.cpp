// For tests only: LD_PRELOAD=libfailing_calls.so makes one system call of a run fail. tests/end_to_end/failing_calls.py
// drives it.
//
// FAILING_CALLS names a file of 4096 zeros, which all processes of the run map: counters of calls by process and
// function, and whether the fault has struck. It outlives whatever happens to the processes. FAILING_CALLS_FAULT, if
// set, is "PROCESS FUNCTION K ERRNO": the K-th call of the function in the process fails. A process is trainer,
// trainer-prepare, or a rank of trainer-worker, or the first two of a second machine (FAILING_CALLS_MACHINE=1); a child
// counts as its parent until it executes another program.
//
// Only calls through libc's public functions are seen, as our code, libtorch and Gloo make them; libc's own (of fopen,
// malloc, the dynamic linker) aren't.
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>

namespace {

// clang-format off
#define EACH_FUNCTION(F) \
  F(open) F(fopen) F(read) F(write) F(writev) F(pread) F(pwrite) F(close) F(fsync) F(fallocate) F(ftruncate) \
  F(rename) F(renameat2) F(unlink) F(mkdir) F(rmdir) F(symlink) F(flock) F(fork) F(execve) F(waitpid) F(waitid) \
  F(timerfd_create) F(pipe) F(dup2) F(socket) F(socketpair) F(bind) F(listen) F(accept) F(connect) F(send) \
  F(sendmsg) F(recv) F(recvmsg) F(poll) F(epoll_create1) F(epoll_ctl) F(epoll_wait) F(eventfd) F(signalfd) \
  F(memfd_create) F(mmap) F(pthread_create) F(fstat) F(stat) F(lstat) F(access) F(opendir) F(readdir) F(readlink) \
  F(realpath) F(getcwd) F(statvfs) F(link) F(unlinkat) F(fchmod) F(mkostemp) F(sendfile) F(setsockopt) F(getsockname) \
  F(getifaddrs)
// clang-format on

enum Function : int {
#define NAME(name) k_##name,
  EACH_FUNCTION(NAME)
#undef NAME
      kFunctions
};
constexpr const char* kNames[] = {
#define NAME(name) #name,
    EACH_FUNCTION(NAME)
#undef NAME
};

constexpr int kProcesses = 6;
constexpr const char* kProcessNames[] = {"trainer", "trainer-prepare", "rank-0",
                                         "rank-1",  "trainer-1",       "trainer-prepare-1"};
constexpr int kOfMachine1 = 4;  // the first of its processes; ranks count over the machines

/// The content of the shared file.
struct Counts {
  std::atomic<uint64_t> calls[kProcesses][64];
  std::atomic<uint64_t> descriptors[kProcesses];  // that the process holds when it exits
  std::atomic<uint64_t> struck;
  char subject[512];  // of the call that has failed: the path, if it has one
  char caller[256];   // the program or library that called
};
static_assert(kFunctions <= 64 && sizeof(Counts) <= 4096);

struct Plan {
  Counts* counts = nullptr;
  int process = -1;  // this one
  pid_t pid = 0;     // a child has another one until it executes a program
  int function = -1, error = 0;
  uint64_t call = 0;
};

int process_number() {
  const char* const name = program_invocation_short_name;
  const char* const machine = getenv("FAILING_CALLS_MACHINE");
  const int first = machine != nullptr && strcmp(machine, "1") == 0 ? kOfMachine1 : 0;
  if (strcmp(name, "trainer") == 0) return first;
  if (strcmp(name, "trainer-prepare") == 0) return first + 1;
  const char* const rank = getenv("RANK");
  if (strcmp(name, "trainer-worker") != 0 || rank == nullptr) return -1;
  return strcmp(rank, "0") == 0 ? 2 : strcmp(rank, "1") == 0 ? 3 : -1;
}

template <class F>
F next(const char* name) {
  return reinterpret_cast<F>(dlsym(RTLD_NEXT, name));
}

/// Set up before main(); calls before that aren't counted.
Plan plan;

__attribute__((constructor)) void set_up() {
  const char* const path = getenv("FAILING_CALLS");
  const int process = process_number();
  if (path == nullptr || process < 0) return;
  const int file = next<int (*)(const char*, int, ...)>("open")(path, O_RDWR | O_CLOEXEC);
  if (file < 0) return;
  void* const memory = next<void* (*)(void*, size_t, int, int, int, off_t)>("mmap")(
      nullptr, sizeof(Counts), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  next<int (*)(int)>("close")(file);
  if (memory == MAP_FAILED) return;
  char who[32], what[32];
  unsigned long call = 0;
  int error = 0;
  const char* const fault = getenv("FAILING_CALLS_FAULT");
  if (fault != nullptr && sscanf(fault, "%31s %31s %lu %d", who, what, &call, &error) == 4 &&
      strcmp(who, kProcessNames[process]) == 0) {
    for (int i = 0; i < kFunctions; ++i)
      if (strcmp(what, kNames[i]) == 0) plan.function = i;
    plan.call = call;
    plan.error = error;
  }
  plan.process = process;
  plan.pid = getpid();
  plan.counts = static_cast<Counts*>(memory);
}

/// Records how many descriptors are open; called as the process exits.
__attribute__((destructor)) void count_descriptors() {
  if (plan.counts == nullptr || getpid() != plan.pid) return;
  DIR* const folder = next<DIR* (*)(const char*)>("opendir")("/proc/self/fd");
  if (folder == nullptr) return;
  uint64_t count = 0;
  const auto read_entry = next<dirent* (*)(DIR*)>("readdir");
  while (const dirent* const entry = read_entry(folder)) count += entry->d_name[0] != '.' ? 1 : 0;
  closedir(folder);
  plan.counts->descriptors[plan.process].store(count - 1);  // without that of the folder
}

/// What a call is about: its first argument, if that is a path or a descriptor.
void write_subject(char*) {}
template <class... Rest>
void write_subject(char* to, const char* path, const Rest&...) {
  strncpy(to, path, sizeof(Counts::subject) - 1);
}
template <class... Rest>
void write_subject(char* to, int fd, const Rest&...) {
  char link[64];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  if (next<ssize_t (*)(const char*, char*, size_t)>("readlink")(link, to, sizeof(Counts::subject) - 1) < 0) to[0] = 0;
}
template <class... Rest>
void write_subject(char* to, DIR* folder, const Rest&...) {
  write_subject(to, dirfd(folder));
}
template <class First, class... Rest>
void write_subject(char*, const First&, const Rest&...) {}

struct Call {
  Function function;
  const void* caller;

  /// Counts the call. Whether it must fail; errno is set then.
  template <class... Arguments>
  bool fails(const Arguments&... arguments) const {
    if (plan.counts == nullptr) return false;
    const uint64_t number = plan.counts->calls[plan.process][function].fetch_add(1) + 1;
    if (plan.function != function || number != plan.call) return false;
    plan.counts->struck.store(1);
    write_subject(plan.counts->subject, arguments...);
    Dl_info about{};
    if (dladdr(caller, &about) != 0 && about.dli_fname != nullptr)
      strncpy(plan.counts->caller, about.dli_fname, sizeof(Counts::caller) - 1);
    errno = plan.error;
    return true;
  }
};
#define CALL(function) (Call{function, __builtin_return_address(0)})

}  // namespace

#define FORWARD(function, result, name, parameters, arguments, failed) \
  extern "C" result name parameters {                                  \
    if (CALL(k_##function).fails arguments) return failed;             \
    static const auto real = next<result(*) parameters>(#name);        \
    return real arguments;                                             \
  }

#define OPEN(name)                                                                       \
  extern "C" int name(const char* path, int flags, ...) {                                \
    va_list more;                                                                        \
    va_start(more, flags);                                                               \
    const mode_t mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(more, mode_t) : 0; \
    va_end(more);                                                                        \
    if (CALL(k_open).fails(path)) return -1;                                             \
    static const auto real = next<int (*)(const char*, int, ...)>(#name);                \
    return real(path, flags, mode);                                                      \
  }
OPEN(open)
OPEN(open64)
#define OPENAT(name)                                                                     \
  extern "C" int name(int folder, const char* path, int flags, ...) {                    \
    va_list more;                                                                        \
    va_start(more, flags);                                                               \
    const mode_t mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(more, mode_t) : 0; \
    va_end(more);                                                                        \
    if (CALL(k_open).fails(path)) return -1;                                             \
    static const auto real = next<int (*)(int, const char*, int, ...)>(#name);           \
    return real(folder, path, flags, mode);                                              \
  }
OPENAT(openat)
OPENAT(openat64)
/// FORTIFY's open without a mode.
FORWARD(open, int, __open_2, (const char* path, int flags), (path, flags), -1)
FORWARD(open, int, __open64_2, (const char* path, int flags), (path, flags), -1)
FORWARD(fopen, FILE*, fopen, (const char* path, const char* mode), (path, mode), nullptr)
FORWARD(fopen, FILE*, fopen64, (const char* path, const char* mode), (path, mode), nullptr)
FORWARD(read, ssize_t, read, (int fd, void* bytes, size_t count), (fd, bytes, count), -1)
FORWARD(read, ssize_t, __read_chk, (int fd, void* bytes, size_t count, size_t size), (fd, bytes, count, size), -1)
FORWARD(write, ssize_t, write, (int fd, const void* bytes, size_t count), (fd, bytes, count), -1)
FORWARD(writev, ssize_t, writev, (int fd, const iovec* parts, int count), (fd, parts, count), -1)
FORWARD(pread, ssize_t, pread, (int fd, void* bytes, size_t count, off_t at), (fd, bytes, count, at), -1)
FORWARD(pwrite, ssize_t, pwrite, (int fd, const void* bytes, size_t count, off_t at), (fd, bytes, count, at), -1)
FORWARD(waitid, int, waitid, (idtype_t kind, id_t id, siginfo_t* about, int options), (kind, id, about, options), -1)
FORWARD(timerfd_create, int, timerfd_create, (int clock, int flags), (clock, flags), -1)
FORWARD(dup2, int, dup3, (int from, int to, int flags), (from, to, flags), -1)
FORWARD(fsync, int, fsync, (int fd), (fd), -1)
FORWARD(fallocate, int, fallocate, (int fd, int mode, off_t from, off_t count), (fd, mode, from, count), -1)
FORWARD(fallocate, int, fallocate64, (int fd, int mode, off64_t from, off64_t count), (fd, mode, from, count), -1)
FORWARD(ftruncate, int, ftruncate, (int fd, off_t size), (fd, size), -1)
FORWARD(ftruncate, int, ftruncate64, (int fd, off64_t size), (fd, size), -1)
FORWARD(rename, int, rename, (const char* from, const char* to), (from, to), -1)
FORWARD(renameat2, int, renameat2, (int a, const char* from, int b, const char* to, unsigned flags),
        (a, from, b, to, flags), -1)
FORWARD(unlink, int, unlink, (const char* path), (path), -1)
FORWARD(mkdir, int, mkdir, (const char* path, mode_t mode), (path, mode), -1)
FORWARD(rmdir, int, rmdir, (const char* path), (path), -1)
FORWARD(symlink, int, symlink, (const char* target, const char* path), (target, path), -1)
FORWARD(flock, int, flock, (int fd, int operation), (fd, operation), -1)
FORWARD(fork, pid_t, fork, (void), (), -1)
FORWARD(execve, int, execve, (const char* path, char* const words[], char* const environment[]),
        (path, words, environment), -1)
FORWARD(execve, int, execvp, (const char* path, char* const words[]), (path, words), -1)
FORWARD(execve, int, execv, (const char* path, char* const words[]), (path, words), -1)
FORWARD(execve, int, execvpe, (const char* path, char* const words[], char* const environment[]),
        (path, words, environment), -1)
FORWARD(waitpid, pid_t, waitpid, (pid_t pid, int* status, int options), (pid, status, options), -1)
FORWARD(pipe, int, pipe, (int ends[2]), (ends), -1)
FORWARD(pipe, int, pipe2, (int ends[2], int flags), (ends, flags), -1)
FORWARD(dup2, int, dup2, (int from, int to), (from, to), -1)
FORWARD(dup2, int, dup, (int from), (from), -1)
FORWARD(socket, int, socket, (int domain, int type, int protocol), (domain, type, protocol), -1)
FORWARD(socketpair, int, socketpair, (int domain, int type, int protocol, int ends[2]), (domain, type, protocol, ends),
        -1)
FORWARD(bind, int, bind, (int fd, const sockaddr* address, socklen_t size), (fd, address, size), -1)
FORWARD(listen, int, listen, (int fd, int backlog), (fd, backlog), -1)
FORWARD(accept, int, accept, (int fd, sockaddr* address, socklen_t* size), (fd, address, size), -1)
FORWARD(accept, int, accept4, (int fd, sockaddr* address, socklen_t* size, int flags), (fd, address, size, flags), -1)
FORWARD(connect, int, connect, (int fd, const sockaddr* address, socklen_t size), (fd, address, size), -1)
FORWARD(send, ssize_t, send, (int fd, const void* bytes, size_t count, int flags), (fd, bytes, count, flags), -1)
FORWARD(sendmsg, ssize_t, sendmsg, (int fd, const msghdr* message, int flags), (fd, message, flags), -1)
FORWARD(recv, ssize_t, recv, (int fd, void* bytes, size_t count, int flags), (fd, bytes, count, flags), -1)
FORWARD(recvmsg, ssize_t, recvmsg, (int fd, msghdr* message, int flags), (fd, message, flags), -1)
FORWARD(poll, int, poll, (pollfd * events, nfds_t count, int timeout), (events, count, timeout), -1)
FORWARD(poll, int, ppoll, (pollfd * events, nfds_t count, const timespec* timeout, const sigset_t* mask),
        (events, count, timeout, mask), -1)
FORWARD(epoll_create1, int, epoll_create1, (int flags), (flags), -1)
FORWARD(epoll_ctl, int, epoll_ctl, (int fd, int operation, int other, epoll_event* event),
        (fd, operation, other, event), -1)
FORWARD(epoll_wait, int, epoll_wait, (int fd, epoll_event* events, int count, int timeout),
        (fd, events, count, timeout), -1)
FORWARD(eventfd, int, eventfd, (unsigned count, int flags), (count, flags), -1)
FORWARD(signalfd, int, signalfd, (int fd, const sigset_t* mask, int flags), (fd, mask, flags), -1)
FORWARD(memfd_create, int, memfd_create, (const char* name, unsigned flags), (name, flags), -1)
FORWARD(mmap, void*, mmap, (void* at, size_t size, int protection, int flags, int fd, off_t offset),
        (at, size, protection, flags, fd, offset), MAP_FAILED)
FORWARD(fstat, int, fstat, (int fd, struct stat* about), (fd, about), -1)
FORWARD(fstat, int, fstat64, (int fd, struct stat64* about), (fd, about), -1)
FORWARD(stat, int, stat, (const char* path, struct stat* about), (path, about), -1)
FORWARD(stat, int, stat64, (const char* path, struct stat64* about), (path, about), -1)
FORWARD(lstat, int, lstat, (const char* path, struct stat* about), (path, about), -1)
FORWARD(lstat, int, lstat64, (const char* path, struct stat64* about), (path, about), -1)
FORWARD(access, int, access, (const char* path, int mode), (path, mode), -1)
FORWARD(opendir, DIR*, opendir, (const char* path), (path), nullptr)
FORWARD(opendir, DIR*, fdopendir, (int fd), (fd), nullptr)
FORWARD(readdir, dirent*, readdir, (DIR * folder), (folder), nullptr)
FORWARD(readdir, dirent64*, readdir64, (DIR * folder), (folder), nullptr)
FORWARD(readlink, ssize_t, readlink, (const char* path, char* to, size_t size), (path, to, size), -1)
FORWARD(realpath, char*, realpath, (const char* path, char* to), (path, to), nullptr)
FORWARD(getcwd, char*, getcwd, (char* to, size_t size), (to, size), nullptr)
FORWARD(statvfs, int, statvfs, (const char* path, struct statvfs* about), (path, about), -1)
FORWARD(link, int, link, (const char* from, const char* to), (from, to), -1)
FORWARD(unlinkat, int, unlinkat, (int folder, const char* path, int flags), (folder, path, flags), -1)
FORWARD(fchmod, int, fchmod, (int fd, mode_t mode), (fd, mode), -1)
FORWARD(mkostemp, int, mkostemp, (char* path, int flags), (path, flags), -1)
FORWARD(sendfile, ssize_t, sendfile, (int to, int from, off_t* at, size_t count), (to, from, at, count), -1)
FORWARD(setsockopt, int, setsockopt, (int fd, int level, int option, const void* value, socklen_t size),
        (fd, level, option, value, size), -1)
FORWARD(getsockname, int, getsockname, (int fd, sockaddr* address, socklen_t* size), (fd, address, size), -1)
FORWARD(getifaddrs, int, getifaddrs, (ifaddrs * *first), (first), -1)

/// A descriptor is closed whatever close() returns.
extern "C" int close(int fd) {
  static const auto real = next<int (*)(int)>("close");
  const bool failed = CALL(k_close).fails(fd);
  const int error = errno, result = real(fd);
  if (failed) errno = error;
  return failed ? -1 : result;
}

/// Skips destructors.
#define EXIT(name)                              \
  extern "C" [[noreturn]] void name(int code) { \
    count_descriptors();                        \
    next<void (*)(int)>(#name)(code);           \
    __builtin_unreachable();                    \
  }
EXIT(_exit)
EXIT(_Exit)

/// These return the error instead of setting errno.
extern "C" int posix_fallocate(int fd, off_t from, off_t count) {
  if (CALL(k_fallocate).fails(fd)) return plan.error;
  static const auto real = next<int (*)(int, off_t, off_t)>("posix_fallocate");
  return real(fd, from, count);
}

extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* how, void* (*body)(void*), void* argument) {
  if (CALL(k_pthread_create).fails()) return plan.error;
  static const auto real = next<int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*)>("pthread_create");
  return real(thread, how, body, argument);
}
