#include "engine/launch/entrance.h"

#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include <fmt/format.h>

#include "engine/base/errors.h"

namespace trainer::launch {
namespace {

constexpr std::chrono::seconds kRest{1};
constexpr rlim_t kManyFiles = 65'536;
constexpr int kMostAccepted = 1024;  // connections; a flood must not keep the launcher from its machines and ranks

/// Drops the first stranger, if there is one; `host`: of this address, or of any if "".
bool drop_oldest(std::vector<Visitor>& visitors, const std::string& host = "") {
  const auto is_stranger = [&](const Visitor& visitor) {
    return !visitor.who && (host.empty() || visitor.from.host() == host);
  };
  const auto oldest = std::find_if(visitors.begin(), visitors.end(), is_stranger);  // they stand in order of arrival
  if (oldest == visitors.end()) return false;
  visitors.erase(oldest);
  return true;
}

/// At most half of the descriptors: ranks, files and machines need the others.
std::size_t most_strangers() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return Entrance::kMostStrangers;
  return std::min<rlim_t>(Entrance::kMostStrangers, limit.rlim_cur / 2);
}

void make_room(std::vector<Visitor>& visitors, const std::string& host) {
  std::size_t strangers = 0, of_host = 0;
  for (const Visitor& visitor : visitors) {
    if (visitor.who) continue;
    ++strangers;
    of_host += visitor.from.host() == host ? 1 : 0;
  }
  if (of_host >= Entrance::kMostOfOneAddress)
    drop_oldest(visitors, host);
  else if (strangers >= most_strangers())
    drop_oldest(visitors);
}

}  // namespace

std::string Visitor::name() const {
  return who ? fmt::format("machine {} ({}, {})", who->machine, who->name, from.host()) : from.text();
}

Entrance::Entrance() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = std::clamp<rlim_t>(kManyFiles, limit.rlim_cur, limit.rlim_max);
  setrlimit(RLIMIT_NOFILE, &limit);  // if it fails, the limits below still hold
}

void Entrance::add_events(std::vector<pollfd>& events) const {
  if (Clock::now() < rests_until_) return;
  for (const FileDescriptor& listener : listeners_) events.push_back({listener.get(), POLLIN, 0});
}

void Entrance::let_in(std::vector<Visitor>& visitors) {
  if (Clock::now() < rests_until_) return;
  for (const FileDescriptor& listener : listeners_) {
    for (int i = 0; i < kMostAccepted; ++i) {
      const Accepted accepted = accept_one(listener, visitors);
      if (accepted == Accepted::kNone) break;
      if (accepted == Accepted::kOne || drop_oldest(visitors)) continue;
      rests_until_ = Clock::now() + kRest;
      return;
    }
  }
}

Entrance::Accepted Entrance::accept_one(const FileDescriptor& listener, std::vector<Visitor>& visitors) const {
  FileDescriptor socket(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!socket && errno == ECONNABORTED) return Accepted::kOne;
  if (!socket) return lacks_descriptors(errno) ? Accepted::kNoDescriptor : Accepted::kNone;
  watch_over(socket);
  try {
    const Address from = other_address(socket.get());
    make_room(visitors, from.host());
    visitors.push_back({.line = MachineLine(std::move(socket)), .from = from});
  } catch (const PeerError&) {  // closed again
  }
  return Accepted::kOne;
}

}  // namespace trainer::launch
