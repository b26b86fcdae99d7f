// Addresses of machines: names and numbers, IPv4 and IPv6.
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

/// All addresses of a name or number. Errors: PeerError when the name is not known (yet).
std::vector<Address> resolve(const std::string& host, int port);

/// "host:port", with brackets where an IPv6 number needs them.
std::string endpoint_text(const std::string& host, int port);

/// Our own and the other end's address of a connected socket.
Address own_address(int socket);
Address other_address(int socket);

/// Where ranks of other machines reach this one's: the address of the interface that GLOO_SOCKET_IFNAME names, else
/// that of this connection. Errors: MachineError.
Address address_for_ranks(int socket);

/// Before anybody is waited for. Errors: MachineError when GLOO_SOCKET_IFNAME names an interface that is not there.
void check_interface_for_ranks();

/// The address of a network interface of this machine, of the family of `like`.
/// Errors: MachineError, with the interfaces that there are.
Address address_of_interface(const std::string& name, const Address& like);

/// A socket that listens on this address and no other. Errors: MachineError.
FileDescriptor listen_on(const Address& address);

/// A connected socket. Errors: PeerError.
FileDescriptor connect_to(const Address& address, int patience_ms);

/// For a connection between machines: nothing waits for company, and an end that is silent for 5 seconds is lost.
void watch_over(const FileDescriptor& socket);

}  // namespace trainer::launch
