#include "engine/launch/farewell.h"

#include "engine/base/host_name.h"
#include "engine/launch/follower.h"
#include "engine/launch/leader.h"
#include "engine/launch/meeting_key.h"
#include "engine/launch/slurm.h"

namespace trainer::launch {
namespace {

constexpr std::chrono::seconds kFarewellPatience{10};  // the tasks of a step start within seconds of each other

}  // namespace

void report_failed_start(const config::StartedRank& started, const config::Plan* plan, const Error& error) {
  if (started.machines() < 2 || !started.starts_once()) return;
  const bool knows_port = plan != nullptr && plan->config.main_process_port > 0;
  const int64_t port = knows_port         ? plan->config.main_process_port
                       : started.port > 0 ? started.port
                       : plan != nullptr  ? kDefaultPort
                                          : started.derived_port;
  const std::string host = plan != nullptr ? plan->config.main_process_ip : started.address;
  if (port == 0 || host.empty()) return;
  try {
    SignalQueue signals;
    const Appointment appointment{.host = reachable_name(host), .port = static_cast<int>(port), .key = take_key()};
    const Introduction own{.machine = static_cast<int>(started.machine()),
                           .machines = static_cast<int>(started.machines()),
                           .name = host_name(),
                           .job = started.step};
    if (own.machine == 0) {
      Leader(appointment, own, signals, 0).turn_away(error.code(), error.what(), kFarewellPatience);
    } else {
      Follower(appointment, own, signals).report(error.code(), error.what(), kFarewellPatience);
    }
  } catch (const Error&) {  // the others can't be reached; `error` is what counts
  } catch (const StoppedBeforeStart&) {
  } catch (const EndedBefore&) {
  }
}

}  // namespace trainer::launch
