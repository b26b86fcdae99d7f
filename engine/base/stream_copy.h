// Copying much that is not looked at soon.
#pragma once

#include <cstddef>

namespace trainer {

/// memcpy, past the caches: what is written is not read from memory first, as it is by memcpy for all but the largest
/// sizes, and nothing else is driven out.
void stream_copy(void* to, const void* from, size_t size);

}  // namespace trainer
