// What a machine says of itself when it joins, and what must be the same on all.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/base/link_protocol.h"
#include "engine/config/plan.h"

namespace trainer::launch {

/// An option as a machine has it.
struct Setting {
  std::string path, value, origin;
};

struct Introduction {
  int machine = 0;
  int machines = 1;
  std::string name;   // of the host: "node-b"
  std::string build;  // of the program that trains
  double ahead = 0;   // of one that has come: seconds by which its clock is ahead of ours, but for the way of its words
  std::vector<Setting> settings;
};

/// `machine` of `plan`, with the build of the program `worker_path`.
Introduction introduce(const config::Plan& plan, const std::string& worker_path);

/// What goes on its way now.
LinkMessage to_message(const Introduction& introduction);
/// What has come now. Errors: PeerError for a message that is none.
Introduction introduction_of(const LinkMessage& message);

/// One line for each thing that must be the same on both and isn't. Paths may differ: folders may be mounted elsewhere.
std::vector<std::string> differences(const Introduction& host, const Introduction& guest);

/// What is worth saying about the clock of `guest`, whose `name` it is called by; "" when it agrees with ours.
std::string about_clock(const Introduction& guest, const std::string& name);

/// The build id that the linker wrote into a program; "" when there is none. Errors: MachineError.
std::string build_id(const std::string& program);

}  // namespace trainer::launch
