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

/// How long a rank waits for the others.
constexpr std::chrono::seconds kGlooTimeout{1800};

/// Ranks over c10d's Gloo: on the loopback interface only, or where kAddressVariable names an address of this machine,
/// there, without shared memory. Ranks meet through the supervisor's link. `name`: of this communicator, another one
/// for each. Collective. Errors: PeerError.
std::unique_ptr<Comm> gloo_comm(Link& link, int rank, int size, std::chrono::seconds timeout = kGlooTimeout,
                                const std::string& name = "gloo");
/// The same, where ranks meet through another store; `share_memory` false: as if they were on different machines.
std::unique_ptr<Comm> gloo_comm(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                bool share_memory = true, std::chrono::seconds timeout = kGlooTimeout);

/// True when an exception's message tells that Gloo lost its connection to another rank: where c10d's own Reducer calls
/// Gloo, during a backward pass, nobody of ours is in between to translate it.
bool tells_of_lost_rank(const std::string& message);

}  // namespace trainer::dist
