// What a launcher knows of its run, for whoever asks its status server.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "engine/launch/http_request.h"
#include "engine/metrics/latest_values.h"

namespace trainer::launch {

struct RunStatus {
  struct Rank {
    int number = 0;
    pid_t pid = 0;
    bool is_alive = false;
    bool has_updated = false;  // it has finished an update of this attempt, so all ranks have met
    double still = 0;          // seconds since its last progress, as of the watchdog's last look
  };

  bool is_served = false;  // otherwise nobody asks, and `ranks` and `is_ending` aren't kept up to date
  int world_size = 1;
  bool is_leader = true;         // rank 0 runs on this machine
  bool sees_checkpoints = true;  // output_dir is the leader's, or this machine leads
  int64_t leader_epoch = 0;      // of the leader that this machine follows or is: Note [Leader epochs]
  std::vector<Rank> ranks;       // of this machine; empty: none are started
  bool is_ending = false;        // the attempt is ending, for any reason
  int restarts = 0;              // after losses
  int64_t saves = 0, failed_saves = 0;
  std::string replicated;        // the newest checkpoint that has all its copies (checkpoint.replicas); "": none
  metrics::LatestValues values;  // of rank 0

  /// "" once every rank of this machine has finished an update, unless the attempt is ending.
  std::string why_not_ready() const;
  /// For Prometheus. Values of the whole run appear on the machine of rank 0 only.
  std::string metrics_page() const;
  /// Answers /metrics, /healthz (the launcher is alive) and /readyz (503 with the reason until the run trains).
  HttpResponse respond(const std::string& path) const;
};

}  // namespace trainer::launch
