// Puts TLS, or only its handshake, under Gloo.
//
// Note [Protected connections]
// c10d's Gloo admits anyone who connects to a rank, and sends tensors in clear; its own TLS does both too. Its sockets
// are created, connected, accepted, read and written inside libtorch, so that is where they are protected: in a process
// with guard_connections(), libtorch's calls of connect(), listen(), accept(), epoll_ctl(), read(), recv(), write(),
// writev() and close() come here (redirect.h). A rank's libtorch makes no TCP connections but Gloo's.
//   connect() returns once the connection is made and both ends have proved that they have the key of this attempt.
//   listen() opens a Door. Gloo's event loop waits for the door's guests instead of the listening socket, so a stranger
//     reaches no code of Gloo's. The port is closed once all ranks are connected
//     (Rendezvous). Nothing is redirected before the first one: ranks in shared memory have no Gloo.
//   read(), recv(), write() and writev() pass through the connection's Session, on the socket itself: readiness, the
//     end of a stream, resets and timeouts are the kernel's, as without it.
// The collectives, and so every bit of a result, are Gloo's.
#pragma once

#include <memory>

#include "engine/dist/tls/session.h"

namespace trainer::dist::tls {

/// From the next Rendezvous on, every connection of Gloo's in this process is protected. To be called once, before the
/// first one.
void guard_connections(Credentials credentials);

/// While ranks rendezvous: the port that Gloo opens in this thread, which is closed at the end. Does nothing in a
/// process whose connections aren't guarded.
class Rendezvous {
 public:
  /// Errors: MachineError when this libtorch doesn't make the expected calls.
  Rendezvous();
  ~Rendezvous();
  Rendezvous(const Rendezvous&) = delete;
  Rendezvous& operator=(const Rendezvous&) = delete;

  /// To be called when Gloo listens. Errors: InternalError when it isn't guarded.
  void check_guarded() const;
};

}  // namespace trainer::dist::tls
