#pragma once

#include <chrono>

#include <c10/util/intrusive_ptr.h>

#include "engine/base/link.h"
#include "engine/dist/comm.h"

namespace c10d {
class Store;
}  // namespace c10d

namespace trainer::dist {

/// Ranks that each have their own device, over the vendor's collectives (NCCL for NVIDIA): for tensors on those
/// devices. Ranks rendezvous through the supervisor's link. Collective. Errors: PeerError.
std::unique_ptr<Comm> nccl_comm(Link& link, int rank, int size, at::Device device, std::chrono::seconds timeout);
/// The same with another store.
std::unique_ptr<Comm> nccl_comm(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size, at::Device device,
                                std::chrono::seconds timeout);

}  // namespace trainer::dist
