// Copies large data that isn't read again soon.
#pragma once

#include <cstddef>

namespace trainer {

/// memcpy() that bypasses the caches: the destination isn't read from memory first, as memcpy() does for all but the
/// largest sizes, and other data stays cached.
void stream_copy(void* to, const void* from, size_t size);

}  // namespace trainer
