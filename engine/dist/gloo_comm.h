#pragma once

#include <chrono>
#include <string>

#include "engine/base/link.h"
#include "engine/dist/comm.h"

#include <c10/util/intrusive_ptr.h>

namespace c10d {
class Store;
}  // namespace c10d

namespace trainer::dist {

/// How long a rank waits for its peers.
constexpr std::chrono::seconds kPeerTimeout{1800};

/// Ranks over c10d's Gloo: on the loopback interface only, or, if kAddressVariable names an address of this machine, on
/// that address and without shared memory. Ranks rendezvous through the supervisor's link. `name` must be unique for
/// each communicator. Collective. Errors: PeerError. See Note [Protected connections] in engine/dist/tls/guard.h.
std::unique_ptr<Comm> gloo_comm(Link& link, int rank, int size, std::chrono::seconds timeout = kPeerTimeout,
                                const std::string& name = "gloo");
/// The same with another store; `share_memory` false: as if the ranks were on different machines.
std::unique_ptr<Comm> gloo_comm(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                bool share_memory = true, std::chrono::seconds timeout = kPeerTimeout);

}  // namespace trainer::dist
