// Any bytes as a complete configuration file give a plan that survives serialization to the ranks, or a ConfigError.
#include <sys/mman.h>
#include <unistd.h>

#include "engine/base/errors.h"
#include "engine/base/file_descriptor.h"
#include "engine/config/plan/resolve.h"
#include "tests/fuzz/fuzz.h"

namespace trainer::config {
namespace {

void fuzz(const std::string& text) {
  const FileDescriptor memory(memfd_create("configuration", MFD_CLOEXEC));
  check(write(memory.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()), "a file in memory");
  Plan plan;
  try {
    plan = resolve_plan({fmt::format("/proc/self/fd/{}", memory.get()), "", {}});
  } catch (const ConfigError&) {
    return;
  } catch (const InputError&) {  // from the folder of lora.path
    return;
  }
  check(to_text(parse_plan(to_text(plan))) == to_text(plan), "the ranks parse the same plan");
  resolved_text(plan);
}

/// Clears the environment, so that the plan depends on the file alone.
bool forget_environment() {
  const std::string path = std::getenv("PATH") ? std::getenv("PATH") : "";  // sanitizers find their symbolizer there
  return clearenv() == 0 && setenv("HOME", "/home/user", 1) == 0 && setenv("PATH", path.c_str(), 1) == 0;
}

}  // namespace
}  // namespace trainer::config

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  static const bool alone = trainer::config::forget_environment();
  trainer::check(alone, "the environment is cleared");
  trainer::config::fuzz(std::string(reinterpret_cast<const char*>(data), size));
  return 0;
}
