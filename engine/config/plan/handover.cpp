#include "engine/config/plan/handover.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "engine/base/errors.h"
#include "engine/base/files.h"

namespace trainer::config {

Plan inherited_plan() {
  const char* const fd = std::getenv(kPlanVariable);
  if (fd == nullptr)
    throw ConfigError("this program is started by `trainer`: use `trainer launch` or `trainer check`.");
  std::string text(size_t{1} << 22, '\0');
  const ssize_t size = ::pread(std::atoi(fd), text.data(), text.size(), 0);
  if (size < 0) throw machine_error("read", "the plan that `trainer` handed over", errno);
  if (size == 0) throw InternalError("the plan is empty");
  text.resize(static_cast<size_t>(size));
  return parse_plan(text);
}

}  // namespace trainer::config
