#include "engine/base/uncaught.h"

#include <filesystem>
#include <new>
#include <system_error>

#include "engine/base/files.h"
#include "engine/base/safe_text.h"
#include "engine/base/screen.h"
#include "engine/base/terminal_text.h"

namespace trainer {
namespace {

constexpr const char* kOutOfMemory =
    "out of memory: this machine has no more, or a limit of this process is reached (ulimit -v, a container's "
    "memory).\n"
    "  Free memory, or raise the limit.";
constexpr const char* kBug = "This is a bug in trainer: please report it, with this message and the configuration.";

bool is_out_of_memory(const std::exception& error) {
  return dynamic_cast<const std::bad_alloc*>(&error) != nullptr ||
         std::string(error.what()).find("can't allocate memory") != std::string::npos;  // libtorch's allocator
}

/// A call that the C++ library made for us failed. (Streams throw system_error too, and locks that are misused.)
bool is_of_system(const std::system_error& error) {
  const bool is_errno =
      error.code().category() == std::generic_category() || error.code().category() == std::system_category();
  return is_errno && error.code() != std::errc::resource_deadlock_would_occur &&
         error.code() != std::errc::operation_not_permitted && error.code() != std::errc::invalid_argument;
}

std::string of_system(const std::system_error& error) {
  if (error.code() == std::errc::resource_unavailable_try_again)  // std::thread
    return "cannot start a thread: the limit of processes and threads, or of memory, is reached\n  Raise it with "
           "`ulimit -u` or `ulimit -v`, or in the container's settings.";
  return fmt::format("this machine refused a system call: {}", error.what());
}

}  // namespace

Uncaught describe_uncaught(const std::exception& error) {
  const auto* const ours = dynamic_cast<const Error*>(&error);
  if (ours != nullptr && ours->code() != kInternalFailure) return {ours->code(), ours->what()};
  if (is_out_of_memory(error)) return {kMachineFailure, kOutOfMemory};
  if (const auto* const files = dynamic_cast<const std::filesystem::filesystem_error*>(&error))
    return {kMachineFailure, machine_error("access", files->path1(), files->code().value()).what()};
  if (const auto* const system = dynamic_cast<const std::system_error*>(&error); system && is_of_system(*system))
    return {kMachineFailure, of_system(*system)};
  return {kInternalFailure, fmt::format("{}{}\n{}", ours == nullptr ? "unexpected: " : "", error.what(), kBug)};
}

int end_uncaught(const std::exception& error, int fd) {
  if (screen::is_lost_output(error)) return kDone;
  const Uncaught ending = describe_uncaught(error);
  screen::write(fd, wrapped_for(fd, safe_text(ending.text)) + "\n");
  return ending.code;
}

}  // namespace trainer
