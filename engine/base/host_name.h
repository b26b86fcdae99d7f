#pragma once

#include <unistd.h>

#include <climits>
#include <string>

namespace trainer {

/// The name of this machine; "" if it has none.
inline std::string host_name() {
  char name[HOST_NAME_MAX + 1] = "";
  gethostname(name, sizeof(name) - 1);
  return name;
}

}  // namespace trainer
