#include "engine/launch/port_holder.h"

#include <netinet/in.h>
#include <pwd.h>
#include <unistd.h>

#include <charconv>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <system_error>

#include <fmt/format.h>

#include "engine/base/files.h"

namespace trainer::launch {
namespace {

namespace fs = std::filesystem;

/// A line of /proc/net/tcp: see proc(5).
struct SocketLine {
  std::string own;  // address and port
  bool listens = false;
  unsigned user = 0;
  std::string inode;
};

std::optional<SocketLine> read_line(const std::string& text) {
  std::istringstream words(text);
  SocketLine line;
  std::string state, skipped, user;
  words >> skipped >> line.own >> skipped >> state >> skipped >> skipped >> skipped >> user >> skipped >> line.inode;
  if (line.inode.empty() || line.inode == "0") return {};  // "0": no process owns it any more
  line.listens = state == "0A";
  std::from_chars(user.data(), user.data() + user.size(), line.user);
  return line;
}

/// As the kernel writes it: words in the machine's byte order.
std::string hexadecimal(const Address& address) {
  std::string text;
  if (address.bytes.ss_family == AF_INET) {
    const auto& four = *reinterpret_cast<const sockaddr_in*>(&address.bytes);
    return fmt::format("{:08X}:{:04X}", four.sin_addr.s_addr, ntohs(four.sin_port));
  }
  const auto& six = *reinterpret_cast<const sockaddr_in6*>(&address.bytes);
  for (const uint32_t word : six.sin6_addr.s6_addr32) text += fmt::format("{:08X}", word);
  return text + fmt::format(":{:04X}", ntohs(six.sin6_port));
}

/// Whether a socket at `own` prevents one at `wanted`: it has the same address, or listens on all addresses.
bool is_in_the_way(const std::string& own, const std::string& wanted) {
  const size_t colon = own.find(':');
  return own == wanted || (colon != std::string::npos && own.find_first_not_of('0') == colon &&
                           own.substr(colon) == wanted.substr(wanted.find(':')));
}

std::optional<SocketLine> find_line(const Address& address) {
  const std::string wanted = hexadecimal(address);
  std::optional<SocketLine> found;
  for (const char* const table : {"/proc/self/net/tcp", "/proc/self/net/tcp6"}) {
    std::ifstream lines(table);
    for (std::string text; std::getline(lines, text);)
      if (const auto line = read_line(text); line && is_in_the_way(line->own, wanted) && (!found || line->listens))
        found = line;
  }
  return found;
}

bool has_open(const fs::path& process, const std::string& inode) {
  std::error_code error;  // it may be another user's, or gone
  for (fs::directory_iterator file(process / "fd", error), end; !error && file != end; file.increment(error)) {
    std::error_code gone;
    if (fs::read_symlink(file->path(), gone) == "socket:[" + inode + "]") return true;
  }
  return false;
}

}  // namespace

std::string holder_of(const Address& address) {
  const std::optional<SocketLine> line = find_line(address);
  if (!line) return "";
  std::error_code error;
  for (fs::directory_iterator process("/proc", error), end; !error && process != end; process.increment(error)) {
    const std::string number = process->path().filename().string();
    if (number.find_first_not_of("0123456789") == std::string::npos && has_open(process->path(), line->inode))
      return fmt::format("process {} ({})", number, first_line(process->path() / "comm"));
  }
  if (line->user == geteuid()) return "";  // it has ended meanwhile, or runs in another container
  const passwd* const user = getpwuid(line->user);
  return fmt::format("a process of the user {}", user != nullptr ? user->pw_name : std::to_string(line->user));
}

}  // namespace trainer::launch
