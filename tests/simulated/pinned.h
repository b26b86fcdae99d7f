// Memory of the host that the device can copy to and from while the host goes on.
#pragma once

#include <cstdint>
#include <optional>

#include <c10/core/Allocator.h>

#include "tests/simulated/blocks.h"
#include "tests/simulated/timeline.h"

namespace trainer::simulated {

// Note [Protected memory]
// The host sees each block of pinned memory at an address whose pages are protected while operators of the device, which
// the host hasn't waited for, write the block (then the host may do nothing) or read it (then the host may read it).
// Another view of the same pages, which the simulation uses, isn't protected. So code without an operator, such as a loop
// over the host's copy of the parameters, cannot use them too early unseen: the fault is noted as an error with the
// address of the code, and the code goes on. Only bytes that the operators use count, but blocks are protected whole;
// after a fault beside those bytes, a block remains open until its state changes.

c10::Allocator& pinned_memory();
bool is_pinned(const void* address);
/// Whether this process has any.
bool any_pinned();
/// The block that `address` lies in, or none.
std::optional<BlockId> pinned_block_at(const void* address);

/// Where the device finds pinned memory.
void* as_device_sees(const void* address);
/// Of the block that begins there, the host may do no more than that.
void protect_pinned(uintptr_t block, Allowed allowed);

}  // namespace trainer::simulated
