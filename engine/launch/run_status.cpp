#include "engine/launch/run_status.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>

#include <fmt/format.h>

#include "engine/launch/folder_copy.h"

namespace trainer::launch {
namespace {

using metrics::PrometheusKind;
using metrics::PrometheusPage;
constexpr PrometheusKind kGauge = PrometheusKind::kGauge, kCounter = PrometheusKind::kCounter;

/// Resident memory of a process; -1 if it has ended.
double resident_bytes(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/statm", pid));
  int64_t total = 0, resident = 0;
  if (!(file >> total >> resident)) return -1;
  return static_cast<double>(resident) * static_cast<double>(sysconf(_SC_PAGESIZE));
}

PrometheusPage::Labels label_of(const RunStatus::Rank& rank) {
  return {{"rank", std::to_string(rank.number)}};
}

void add_ranks(const RunStatus& status, PrometheusPage& page) {
  page.begin("trainer_rank_resident_memory_bytes", kGauge, "Resident memory of a rank of this machine.");
  for (const RunStatus::Rank& rank : status.ranks)
    if (const double bytes = rank.is_alive ? resident_bytes(rank.pid) : -1; bytes >= 0) page.add(bytes, label_of(rank));
  page.begin("trainer_rank_last_progress_age_seconds", kGauge,
             "Seconds since a rank of this machine last began or ended a phase or a collective.");
  for (const RunStatus::Rank& rank : status.ranks)
    if (rank.is_alive) page.add(rank.still, label_of(rank));
}

}  // namespace

std::string RunStatus::why_not_ready() const {
  if (ranks.empty()) return restarts > 0 ? "restarting" : "no ranks are started yet";
  if (is_ending) return "the ranks are ending";
  const auto updated = std::count_if(ranks.begin(), ranks.end(), [](const Rank& rank) { return rank.has_updated; });
  if (updated == std::ssize(ranks)) return "";
  return fmt::format("{} of {} ranks of this machine have finished an update", updated, ranks.size());
}

std::string RunStatus::metrics_page() const {
  const auto alive = std::count_if(ranks.begin(), ranks.end(), [](const Rank& rank) { return rank.is_alive; });
  PrometheusPage page;
  page.begin("trainer_build_info", kGauge, "The program's version; the value is always 1.");
  page.add(1, {{"version", TRAINER_VERSION}, {"revision", TRAINER_REVISION}});
  page.add("trainer_ready", kGauge, "1 while /readyz answers 200, else 0.", why_not_ready().empty() ? 1 : 0);
  page.add("trainer_ranks", kGauge, "Ranks of the run.", world_size);
  page.add("trainer_ranks_alive", kGauge, "Ranks of this machine whose process is alive.", static_cast<double>(alive));
  page.add("trainer_restarts_total", kCounter, "Restarts of all ranks after a rank or a machine was lost.", restarts);
  page.add("trainer_leader_epoch", kGauge, "Grows with each leader of the output folder.",
           static_cast<double>(leader_epoch));
  add_ranks(*this, page);
  if (!is_leader) return page.text();
  page.add("trainer_checkpoint_saves_total", kCounter, "Checkpoints saved since the launcher was started.",
           static_cast<double>(saves));
  page.add("trainer_checkpoint_save_failures_total", kCounter, "Saves that failed since the launcher was started.",
           static_cast<double>(failed_saves));
  if (const int64_t step = step_of_checkpoint(replicated); step >= 0)
    page.add("trainer_checkpoint_replicated_step", kGauge,
             "The newest checkpoint of which other machines keep all copies (checkpoint.replicas).",
             static_cast<double>(step));
  values.add_to(page);
  return page.text();
}

HttpResponse RunStatus::respond(const std::string& path) const {
  if (path == "/metrics") return {.body = metrics_page(), .type = PrometheusPage::kContentType};
  if (path == "/healthz") return {.body = "ok\n"};
  if (path == "/readyz") {
    const std::string why = why_not_ready();
    return why.empty() ? HttpResponse{.body = "ready\n"} : HttpResponse{.status = 503, .body = why + "\n"};
  }
  return {.status = 404, .body = "/metrics, /healthz and /readyz are served here\n"};
}

}  // namespace trainer::launch
