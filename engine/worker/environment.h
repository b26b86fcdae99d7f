#pragma once

#include <cstdlib>

#include "engine/base/errors.h"

namespace trainer::worker {

/// A number that the supervisor gave this rank.
inline int environment_number(const char* name) {
  const char* const text = std::getenv(name);
  if (text == nullptr) throw InternalError("{} is not set: ranks are started by `trainer launch`", name);
  return std::atoi(text);
}

}  // namespace trainer::worker
