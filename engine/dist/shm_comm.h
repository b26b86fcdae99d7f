#pragma once

#include <memory>

#include <c10/util/intrusive_ptr.h>

#include "engine/dist/gloo_comm.h"

namespace trainer::dist {

/// Collective. Ranks that share this machine's memory, over which they communicate (engine/dist/shm): a reduction of
/// small tensors takes microseconds instead of Gloo's hundreds, and no port is open. Null, on every rank, when one of
/// them cannot map the memory of another. Errors: PeerError.
std::unique_ptr<Comm> shm_comm(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                               std::chrono::seconds timeout);

/// Collective. Communicates tensors on the CPU: in shared memory if `share_memory`, and may_share_memory(), and it can be
/// mapped; otherwise over Gloo. Errors: PeerError.
std::unique_ptr<Comm> cpu_comm(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                               bool share_memory = true, std::chrono::seconds timeout = kPeerTimeout);
/// The same for the ranks of a run, which rendezvous through the supervisor's link. `name` must be unique for each
/// communicator.
std::unique_ptr<Comm> cpu_comm(Link& link, int rank, int size, std::chrono::seconds timeout = kPeerTimeout,
                               const std::string& name = "cpu");

}  // namespace trainer::dist
