#include "engine/base/uncaught.h"

#include <filesystem>
#include <new>

#include "engine/base/files.h"
#include "engine/base/safe_text.h"
#include "engine/base/screen.h"

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

}  // namespace

Uncaught describe_uncaught(const std::exception& error) {
  const auto* const ours = dynamic_cast<const Error*>(&error);
  if (ours != nullptr && ours->code() != kInternalFailure) return {ours->code(), ours->what()};
  if (is_out_of_memory(error)) return {kMachineFailure, kOutOfMemory};
  if (const auto* const files = dynamic_cast<const std::filesystem::filesystem_error*>(&error))
    return {kMachineFailure, machine_error("access", files->path1(), files->code().value()).what()};
  return {kInternalFailure, fmt::format("{}{}\n{}", ours == nullptr ? "unexpected: " : "", error.what(), kBug)};
}

int end_uncaught(const std::exception& error, int fd) {
  if (screen::is_lost_output(error)) return kDone;
  const Uncaught ending = describe_uncaught(error);
  screen::write(fd, safe_text(ending.text) + "\n");
  return ending.code;
}

}  // namespace trainer
