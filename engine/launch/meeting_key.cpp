#include "engine/launch/meeting_key.h"

#include "engine/base/errors.h"
#include "engine/launch/address.h"
#include "engine/launch/seal.h"
#include "engine/launch/secret.h"

namespace trainer::launch {

std::string take_key() {
  return stretched(take_secret(), kProtocol);
}

std::string peer_key(const std::string& run_key, const std::string& attempt_id) {
  return run_key.empty()
             ? ""
             : keyed_hash(run_key, fmt::format("{}: between the ranks of attempt {}", kProtocol, attempt_id));
}

std::string open_address(const std::string& host, int port) {
  try {
    for (const Address& address : resolve(host, port))
      if (!address.is_loopback()) return address.text();
  } catch (const PeerError&) {  // where it matters, the name is resolved again
  }
  return "";
}

void refuse_open_address(const std::string& host, int port) {
  if (const std::string open = open_address(host, port); !open.empty())
    throw ConfigError(
        "the machines of this run have no secret: anyone who can reach {} could join the run or end it\n"
        "  create one, once: trainer launch --new_secret trainer-secret\n"
        "  copy the file to every machine, and set TRAINER_SECRET_FILE=trainer-secret there\n"
        "  on a network that only you use, TRAINER_SECRET_FILE=none does without",
        open);
}

}  // namespace trainer::launch
