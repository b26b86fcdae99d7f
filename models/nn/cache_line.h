// Lines of the processor's cache.
#pragma once

#include <cstdint>

namespace trainer::nn {

inline constexpr int64_t kLine = 64;  // bytes
/// Lines these bytes apart share one set of a core's first cache, which holds 8 or 12 of them.
inline constexpr int64_t kBytesOfWay = 64 * kLine;

/// The first line that begins at `data` or after it. Products fetch runs of a weight from here on: where runs don't
/// begin with a line, as in a file, each lies in one line more, whose fetching would be left out at its end. That one
/// is the first of the run beside it, and the first of this one came with the run before.
inline const char* first_line(const void* data) {
  const auto at = reinterpret_cast<uintptr_t>(data);
  return reinterpret_cast<const char*>((at + kLine - 1) / kLine * kLine);
}

}  // namespace trainer::nn
