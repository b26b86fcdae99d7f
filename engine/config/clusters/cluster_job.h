// Scripts and manifests that start a run on a cluster: `trainer launch --emit`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/config/plan/plan.h"

namespace trainer::config {

/// What a scheduler has to know about a run.
struct ClusterJob {
  std::string name;    // as Kubernetes demands: lowercase letters, digits and '-'
  std::string folder;  // the working directory: the same path on every machine, or in every container
  std::string program;                 // the path of `trainer`
  std::vector<std::string> arguments;  // of `trainer`: "launch", …
  int64_t machines = 1;
  int64_t cpus = 1, gpus = 0;  // of each machine
  int64_t port = 0;            // where the machines meet; 0: not given
  int64_t metrics_port = 0;    // of the launcher's metrics page; 0: none
  bool metrics_are_local = true;  // they are served on 127.0.0.1, where nothing outside a container reaches them
  int64_t grace_seconds = 0;   // for stopping and saving
  int64_t restarts = 0;        // of the whole run, by a scheduler that can
};

/// `arguments`: those of `trainer launch`, without --emit. Flags that number machines are dropped: the scheduler does.
ClusterJob cluster_job(const Plan& plan, const std::vector<std::string>& arguments, const std::string& program,
                       const std::string& folder);

/// "sbatch", "pytorchjob", "jobset" and "compose".
const std::vector<std::string>& cluster_kinds();

/// The script or manifest of one of cluster_kinds().
std::string cluster_text(const std::string& kind, const ClusterJob& job);

/// The arguments for a container, which serves metrics on all its addresses: its network is the cluster's.
std::vector<std::string> container_arguments(const ClusterJob& job);

std::string sbatch_text(const ClusterJob& job);
std::string pytorchjob_text(const ClusterJob& job);
std::string jobset_text(const ClusterJob& job);
std::string compose_text(const ClusterJob& job);

/// `text` with $NAME replaced for each of `values`, and lines that contain `@if NAME ` kept without that mark if the
/// value of NAME is neither empty nor 0 nor 1, else removed.
struct TemplateValue {
  std::string name, value;
};
std::string filled(const std::string& text, const std::vector<TemplateValue>& values);

/// As a JSON string, which YAML reads too.
std::string quoted(const std::string& text);
std::string quoted(const std::vector<std::string>& words);

}  // namespace trainer::config
