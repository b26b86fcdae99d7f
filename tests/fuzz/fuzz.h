// Shared code of the fuzzers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

/// Called by libFuzzer and by the replay. A finding is a crash.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size);

namespace trainer {

/// Aborts with `what` when `holds` is false.
inline void check(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "does not hold: %s\n", what);
  std::abort();
}

}  // namespace trainer
