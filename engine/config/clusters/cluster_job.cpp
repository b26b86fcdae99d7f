#include "engine/config/clusters/cluster_job.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <filesystem>

#include <nlohmann/json.hpp>

#include "engine/base/errors.h"
#include "engine/config/machine/device.h"

namespace trainer::config {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kRestarts = 3;       // by the scheduler, unless max_restarts says otherwise
constexpr std::size_t kLongestName = 40;  // Kubernetes allows 63, with the names of pods

/// Flags that number machines or name machine 0; all take a value.
const std::vector<std::string> kMachineFlags{"num_machines", "nnodes",          "num_nodes",   "machine_rank",
                                             "node_rank",    "main_process_ip", "master_addr", "rdzv_endpoint"};

bool is_one_of(std::string flag, const std::vector<std::string>& names) {
  std::replace(flag.begin(), flag.end(), '-', '_');
  return flag.starts_with("__") && std::find(names.begin(), names.end(), flag.substr(2)) != names.end();
}

/// The arguments without these flags and their values.
std::vector<std::string> without(const std::vector<std::string>& flags, const std::vector<std::string>& arguments) {
  std::vector<std::string> kept;
  for (auto word = arguments.begin(); word != arguments.end(); ++word) {
    const std::size_t equals = word->find('=');
    if (!is_one_of(word->substr(0, equals), flags)) {
      kept.push_back(*word);
    } else if (equals == std::string::npos && word + 1 != arguments.end()) {
      ++word;
    }
  }
  return kept;
}

std::string plain_name(const std::string& text) {
  std::string name;
  for (const unsigned char c : text) name += std::isalnum(c) != 0 ? static_cast<char>(std::tolower(c)) : '-';
  name = name.substr(0, kLongestName);
  const auto is_dash = [](char c) { return c == '-'; };
  name.erase(name.begin(), std::find_if_not(name.begin(), name.end(), is_dash));
  name.erase(std::find_if_not(name.rbegin(), name.rend(), is_dash).base(), name.end());
  return name.empty() || std::isdigit(static_cast<unsigned char>(name.front())) != 0 ? "trainer" : name;
}

bool is_more_than_one(const std::string& value) {
  return !value.empty() && value != "0" && value != "1";
}

}  // namespace

ClusterJob cluster_job(const Plan& plan, const std::vector<std::string>& arguments, const std::string& program,
                       const std::string& folder) {
  const Config& config = plan.config;
  const int64_t machines = std::max<int64_t>(1, config.num_machines),
                ranks = std::max<int64_t>(1, plan.world_size() / machines);
  ClusterJob job{.name = plain_name(fs::path(config.output_dir).filename().string()),
                 .folder = folder,
                 .program = program,
                 .arguments = without(kMachineFlags, arguments),
                 .machines = machines,
                 .cpus = ranks * std::max<int64_t>(1, config.num_cpu_threads_per_process),
                 .gpus = asks_for_gpus(config) ? gpus_needed(config) : 0,
                 .port = config.main_process_port,
                 .metrics_port = config.logging.metrics_port,
                 .metrics_are_local = config.logging.metrics_address == LoggingConfig().metrics_address,
                 .grace_seconds = static_cast<int64_t>(std::ceil(config.checkpoint.grace_seconds)),
                 .restarts = config.max_restarts > 0 ? config.max_restarts : kRestarts};
  job.arguments.insert(job.arguments.begin(), "launch");
  return job;
}

std::vector<std::string> container_arguments(const ClusterJob& job) {
  if (job.metrics_port == 0 || !job.metrics_are_local) return job.arguments;
  std::vector<std::string> arguments = without({"metrics_address"}, job.arguments);
  arguments.insert(arguments.end(), {"--metrics_address", "0.0.0.0"});
  return arguments;
}

const std::vector<std::string>& cluster_kinds() {
  static const std::vector<std::string> all{"sbatch", "pytorchjob", "jobset", "compose"};
  return all;
}

std::string cluster_text(const std::string& kind, const ClusterJob& job) {
  if (kind == "sbatch") return sbatch_text(job);
  if (kind == "pytorchjob") return pytorchjob_text(job);
  if (kind == "jobset") return jobset_text(job);
  require(kind == "compose", "a cluster of kind {}", kind);
  return compose_text(job);
}

std::string filled(const std::string& text, const std::vector<TemplateValue>& values) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    std::string line = text.substr(at, end - at);
    at = end + 1;
    bool keeps = true;
    if (const std::size_t mark = line.find("@if "); mark != std::string::npos) {
      const std::size_t space = line.find(' ', mark + 4);
      const std::string name = line.substr(mark + 4, space - mark - 4);
      line.erase(mark, space + 1 - mark);
      for (const TemplateValue& value : values)
        if (value.name == name) keeps = is_more_than_one(value.value);
    }
    if (!keeps) continue;
    for (std::size_t dollar = line.find('$'); dollar != std::string::npos; dollar = line.find('$', dollar)) {
      const auto found = std::find_if(values.begin(), values.end(), [&](const TemplateValue& value) {
        return line.compare(dollar + 1, value.name.size(), value.name) == 0;
      });
      if (found == values.end()) {
        ++dollar;
        continue;
      }
      line.replace(dollar, found->name.size() + 1, found->value);
      dollar += found->value.size();
    }
    out += line + "\n";
  }
  return out;
}

std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump();
}

std::string quoted(const std::vector<std::string>& words) {
  std::string list;
  for (const std::string& word : words) list += (list.empty() ? "" : ", ") + quoted(word);
  return "[" + list + "]";
}

}  // namespace trainer::config
