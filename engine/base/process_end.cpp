#include "engine/base/process_end.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace trainer {

void end_without_destroying_globals() {
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  // Handlers run in the reverse of the order in which they, and globals' destructors, were registered.
  on_exit(
      [](int code, void*) {
        std::fflush(nullptr);
        _exit(code);
      },
      nullptr);
#endif
}

}  // namespace trainer
