#include "engine/launch/address.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <set>

#include <fmt/ranges.h>

#include "engine/base/errors.h"
#include "engine/launch/port_holder.h"

namespace trainer::launch {
namespace {

Address copy_of(const sockaddr* raw, socklen_t size) {
  Address address;
  address.size = size;
  std::memcpy(&address.bytes, raw, size);
  return address;
}

Address address_by(int (*call)(int, sockaddr*, socklen_t*), int socket) {
  Address address;
  address.size = sizeof(address.bytes);
  if (call(socket, reinterpret_cast<sockaddr*>(&address.bytes), &address.size) != 0)
    throw PeerError("a connection has no address: {}", std::strerror(errno));
  return address;
}

void set_option(const FileDescriptor& socket, int level, int option, int value) {
  // An option that the kernel lacks only delays detection: our own pings notice a lost peer too.
  setsockopt(socket.get(), level, option, &value, sizeof(value));
}

std::string service(const Address& address) {
  char text[NI_MAXSERV];
  const int flags = NI_NUMERICHOST | NI_NUMERICSERV;
  return getnameinfo(address.raw(), address.size, nullptr, 0, text, sizeof(text), flags) == 0 ? text : "?";
}

FileDescriptor new_socket(const Address& address) {
  FileDescriptor socket(::socket(address.bytes.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) throw MachineError("cannot create a socket for {}: {}", address.text(), std::strerror(errno));
  return socket;
}

MachineError listen_error(const Address& address, int error) {
  const std::string holder = error == EADDRINUSE ? holder_of(address) : "";
  const std::string what = fmt::format("cannot listen on {}: {}", address.text(), why_not_listening(error, holder));
  if (error == EADDRNOTAVAIL)
    return MachineError(
        "{}\n  main_process_ip is the address of machine 0: on another machine, set another machine_rank (--node_rank)",
        what);
  if (error == EADDRINUSE)
    return MachineError("{}\n  stop {}, or set another main_process_port on all machines", what,
                        holder.empty() ? "the program that uses it (`ss -tnp state all`)" : "that process");
  if (error == EACCES) return MachineError("{}\n  set another main_process_port on all machines", what);
  return MachineError("{}", what);
}

using Interfaces = std::unique_ptr<ifaddrs, void (*)(ifaddrs*)>;

/// The first of a list, one for each address; null with errno if they can't be listed.
Interfaces interfaces() {
  ifaddrs* found = nullptr;
  return {getifaddrs(&found) == 0 ? found : nullptr, freeifaddrs};
}

int family_of(const ifaddrs& interface) {
  return interface.ifa_addr != nullptr ? interface.ifa_addr->sa_family : AF_UNSPEC;
}

/// Of an interface whose family is AF_INET or AF_INET6.
Address address_of(const ifaddrs& interface) {
  return copy_of(interface.ifa_addr, family_of(interface) == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
}

/// The interface that ranks must use; "" when none is set.
std::string interface_for_ranks() {
  const char* const named = std::getenv("GLOO_SOCKET_IFNAME");
  const std::string names = named != nullptr ? named : "";
  return names.substr(0, names.find(','));
}

}  // namespace

bool Address::is_loopback() const {
  if (bytes.ss_family == AF_INET) {
    const auto number = ntohl(reinterpret_cast<const sockaddr_in*>(&bytes)->sin_addr.s_addr);
    return number >> 24 == 127;
  }
  const in6_addr& number = reinterpret_cast<const sockaddr_in6*>(&bytes)->sin6_addr;
  return IN6_IS_ADDR_LOOPBACK(&number) || (IN6_IS_ADDR_V4MAPPED(&number) && number.s6_addr[12] == 127);
}

std::string Address::host() const {
  char text[NI_MAXHOST];
  return getnameinfo(raw(), size, text, sizeof(text), nullptr, 0, NI_NUMERICHOST) == 0 ? text : "?";
}

std::string Address::text() const {
  return fmt::format("{}:{}", bytes.ss_family == AF_INET6 ? "[" + host() + "]" : host(), service(*this));
}

std::string endpoint_text(const std::string& host, int port) {
  return fmt::format("{}:{}", host.find(':') != std::string::npos ? "[" + host + "]" : host, port);
}

std::vector<Address> resolve(const std::string& host, int port, const char* option) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (error != 0) {
    throw PeerError("cannot resolve the address {} ({}): {}", host, option,
                    error == EAI_SYSTEM ? std::strerror(errno) : gai_strerror(error));
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, freeaddrinfo);
  std::vector<Address> addresses;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next)
    addresses.push_back(copy_of(one->ai_addr, one->ai_addrlen));
  return addresses;
}

Address own_address(int socket) {
  return address_by(getsockname, socket);
}

Address other_address(int socket) {
  return address_by(getpeername, socket);
}

Address address_for_ranks(int socket) {
  const Address own = own_address(socket);
  const std::string name = interface_for_ranks();
  return name.empty() ? own : address_of_interface(name, own);
}

void check_interface_for_ranks() {
  const std::string name = interface_for_ranks();
  if (name.empty() || if_nametoindex(name.c_str()) != 0) return;
  const std::unique_ptr<struct if_nameindex, void (*)(struct if_nameindex*)> all(if_nameindex(), if_freenameindex);
  std::set<std::string> others;
  for (const struct if_nameindex* one = all.get(); one != nullptr && one->if_index != 0; ++one)
    others.insert(one->if_name);
  throw MachineError("GLOO_SOCKET_IFNAME is {}, but this machine has no such interface; it has {}", name,
                     fmt::join(others, ", "));
}

Address address_of_interface(const std::string& name, const Address& like) {
  const Interfaces all = interfaces();
  if (!all) throw MachineError("cannot list the network interfaces: {}", std::strerror(errno));
  std::set<std::string> others;
  for (const ifaddrs* one = all.get(); one != nullptr; one = one->ifa_next) {
    if (family_of(*one) != like.bytes.ss_family) continue;
    if (name == one->ifa_name) return address_of(*one);
    others.insert(one->ifa_name);
  }
  throw MachineError(
      "GLOO_SOCKET_IFNAME is {}, but this machine has no such interface with an IPv{} address; it has {}", name,
      like.bytes.ss_family == AF_INET ? 4 : 6, fmt::join(others, ", "));
}

std::string interface_of(const std::string& host) {
  const Interfaces all = interfaces();
  for (const ifaddrs* one = all.get(); one != nullptr; one = one->ifa_next)
    if ((family_of(*one) == AF_INET || family_of(*one) == AF_INET6) && address_of(*one).host() == host)
      return one->ifa_name;
  return "";
}

FileDescriptor try_listen(const Address& address) {
  FileDescriptor socket = new_socket(address);
  set_option(socket, SOL_SOCKET, SO_REUSEADDR, 1);
  if (address.bytes.ss_family == AF_INET6) set_option(socket, IPPROTO_IPV6, IPV6_V6ONLY, 1);
  if (bind(socket.get(), address.raw(), address.size) == 0 && listen(socket.get(), SOMAXCONN) == 0) return socket;
  const int error = errno;
  socket.reset();
  errno = error;
  return socket;
}

std::string why_not_listening(int error, const std::string& holder) {
  if (error == EADDRNOTAVAIL) return "no interface of this machine has that address";
  if (error == EADDRINUSE) return "the port is in use" + (holder.empty() ? "" : " by " + holder);
  if (error == EACCES) return "this account is not allowed to use ports this low";
  return std::strerror(error);
}

bool lacks_descriptors(int error) {
  return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

FileDescriptor listen_on(const Address& address) {
  FileDescriptor socket = try_listen(address);
  if (!socket) throw listen_error(address, errno);
  return socket;
}

FileDescriptor connect_to(const Address& address, int patience_ms) {
  FileDescriptor socket = new_socket(address);
  int error = connect(socket.get(), address.raw(), address.size) == 0 ? 0 : errno;
  if (error == EINPROGRESS) {
    pollfd event{socket.get(), POLLOUT, 0};
    socklen_t size = sizeof(error);
    if (poll(&event, 1, patience_ms) != 1) {
      error = ETIMEDOUT;
    } else if (getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0) {
      error = errno;
    }
  }
  if (error != 0)
    throw PeerError("{}: {}", address.text(), error == ECONNREFUSED ? "nothing listens there" : std::strerror(error));
  // The kernel may assign an unused port to this very socket; TCP then connects the socket to itself.
  if (own_address(socket.get()).text() == other_address(socket.get()).text())
    throw PeerError("{}: nothing listens there", address.text());
  return socket;
}

FileDescriptor connect_to_host(const std::string& host, int port) {
  constexpr int kPatience = 2000;  // milliseconds, of one try
  std::string why;
  for (const Address& address : resolve(host, port)) {
    try {
      FileDescriptor socket = connect_to(address, kPatience);
      watch_over(socket);
      return socket;
    } catch (const PeerError& error) {
      why = error.what();
    }
  }
  throw PeerError("{}", why);
}

void watch_over(const FileDescriptor& socket) {
  set_option(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(socket, IPPROTO_TCP, TCP_KEEPIDLE, 2);
  set_option(socket, IPPROTO_TCP, TCP_KEEPINTVL, 1);
  set_option(socket, IPPROTO_TCP, TCP_KEEPCNT, 3);
  set_option(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, 5000);
}

}  // namespace trainer::launch
