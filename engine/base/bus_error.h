// Accesses to mapped files that fail, with the signal SIGBUS: the file was truncated, or its disk failed.
#pragma once

#include <cstddef>

namespace trainer {

/// The path of the file that this process has mapped at `address`, truncated to `most` bytes, in `path`; returns its
/// length, 0 if there is none. Async-signal-safe.
size_t file_mapped_at(const void* address, char* path, size_t most);

/// From now on, `record` gets the path of the file before such an access ends the process. It is called by a signal
/// handler, once.
void on_bus_error(void (*record)(const char* path, size_t length));

}  // namespace trainer
