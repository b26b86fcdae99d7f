#include "engine/launch/slurm.h"

#include <algorithm>
#include <cstdio>
#include <memory>

#include "engine/base/errors.h"
#include "engine/config/document/scalar.h"
#include "engine/config/machine/started_rank.h"
#include "engine/launch/address.h"
#include "engine/launch/screen.h"

namespace trainer::launch {
namespace {

/// What `scontrol WORDS` prints; "" if it is not installed, or its controller doesn't answer in time.
std::string scontrol(const std::string& words) {
  const std::string command = "exec timeout 10 scontrol " + words + " 2>/dev/null";
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  std::string text;
  char bytes[4096];
  for (std::size_t count; pipe && (count = fread(bytes, 1, sizeof bytes, pipe.get())) > 0;) text.append(bytes, count);
  return text;
}

bool is_in_job() {
  return !config::environment_value("SLURM_JOB_ID").empty();
}

/// Whether other machines may find this one by the name, as far as this machine can tell.
bool is_resolved(const std::string& host) {
  try {
    const std::vector<Address> all = resolve(host, 0);
    return std::any_of(all.begin(), all.end(), [](const Address& address) { return !address.is_loopback(); });
  } catch (const PeerError&) {
    return false;
  }
}

/// Names with other characters are not passed to a shell.
bool is_plain_name(const std::string& host) {
  const auto plain = [](unsigned char c) { return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.'; };
  return !host.empty() && host.front() != '-' && std::all_of(host.begin(), host.end(), plain);
}

}  // namespace

std::string scontrol_value(const std::string& printed, const std::string& name) {
  for (std::size_t at = printed.find(name); at != std::string::npos; at = printed.find(name, at + 1)) {
    const bool begins = at == 0 || std::isspace(static_cast<unsigned char>(printed[at - 1])) != 0;
    const std::size_t equals = printed.find_first_not_of(' ', at + name.size());
    if (!begins || equals == std::string::npos || printed[equals] != '=') continue;
    const std::size_t value = printed.find_first_not_of(' ', equals + 1);
    if (value == std::string::npos) return "";
    return printed.substr(value, printed.find_first_of(" \n", value) - value);
  }
  return "";
}

std::string reachable_name(const std::string& host) {
  if (!is_in_job() || !is_plain_name(host) || host == "localhost" || is_resolved(host)) return host;
  const std::string address = scontrol_value(scontrol("--oneliner show node " + host), "NodeAddr");
  if (address.empty() || address == host || !is_resolved(address)) return host;
  say("trainer: {} is {} (SLURM's NodeAddr)\n", host, address);
  return address;
}

std::optional<std::chrono::seconds> slurm_kill_wait() {
  if (!is_in_job()) return std::nullopt;
  const auto seconds = config::parse_int(scontrol_value(scontrol("show config"), "KillWait"));
  return seconds && *seconds > 0 ? std::optional(std::chrono::seconds(*seconds)) : std::nullopt;
}

}  // namespace trainer::launch
