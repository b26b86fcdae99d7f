// Addresses of machines: host names and numeric addresses, IPv4 and IPv6.
#pragma once

#include <sys/socket.h>

#include <string>
#include <vector>

#include "engine/base/file_descriptor.h"

namespace trainer::launch {

struct Address {
  sockaddr_storage bytes{};
  socklen_t size = 0;

  const sockaddr* raw() const { return reinterpret_cast<const sockaddr*>(&bytes); }
  bool is_loopback() const;
  /// "10.0.0.1", "fd00::1" or "fe80::1%eth0".
  std::string host() const;
  /// "10.0.0.1:29500" or "[fd00::1]:29500".
  std::string text() const;
};

/// All addresses of a host name or numeric address, which `option` names. Errors: PeerError when the name can't be
/// resolved (yet).
std::vector<Address> resolve(const std::string& host, int port, const char* option = "main_process_ip");

/// "host:port", with brackets around a numeric IPv6 address.
std::string endpoint_text(const std::string& host, int port);

/// The local and the remote address of a connected socket.
Address own_address(int socket);
Address other_address(int socket);

/// The address at which ranks of other machines reach this machine's ranks: that of the interface that
/// GLOO_SOCKET_IFNAME names, else the local address of this connection. Errors: MachineError.
Address address_for_ranks(int socket);

/// Called before waiting for other machines. Errors: MachineError when GLOO_SOCKET_IFNAME names a missing interface.
void check_interface_for_ranks();

/// The address of a network interface of this machine, of the family of `like`.
/// Errors: MachineError, listing the interfaces that exist.
Address address_of_interface(const std::string& name, const Address& like);

/// The name of the interface with this numeric address; "" if this machine has none.
std::string interface_of(const std::string& host);

/// A socket that listens on exactly this address; none, with errno, if that fails. Errors: MachineError when no socket
/// can be created.
FileDescriptor try_listen(const Address& address);

/// Why try_listen() failed. `holder`: holder_of() the port, if it is in use.
std::string why_not_listening(int error, const std::string& holder);

/// Whether accept() failed with `error` because the process or the system can't open another file.
bool lacks_descriptors(int error);

/// try_listen() for machine 0 of a run. Errors: MachineError.
FileDescriptor listen_on(const Address& address);

/// A connected socket. Errors: PeerError.
FileDescriptor connect_to(const Address& address, int patience_ms);

/// A connection between machines, to the first address of `host` that answers; each gets two seconds. Errors:
/// PeerError.
FileDescriptor connect_to_host(const std::string& host, int port);

/// For a connection between machines: disables Nagle's algorithm, and drops a peer that is silent for 5 seconds.
void watch_over(const FileDescriptor& socket);

}  // namespace trainer::launch
