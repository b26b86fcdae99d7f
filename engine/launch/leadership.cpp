#include "engine/launch/leadership.h"

#include <filesystem>
#include <functional>
#include <limits>

#include "engine/base/errors.h"
#include "engine/checkpoint/checkpoint_folder.h"
#include "engine/checkpoint/leader_epoch.h"
#include "engine/checkpoint/signing_key.h"
#include "engine/launch/screen.h"
#include "engine/report/model_card.h"
#include "engine/report/report.h"

namespace trainer::launch {
namespace {

/// The output folder, once the keys are checked. Errors: ConfigError.
const std::string& with_checked_keys(const config::Plan& plan) {
  try {
    checkpoint::check_keys(plan.config.checkpoint.sign, plan.config.checkpoint.trusted_key);
  } catch (const ConfigError& error) {
    throw ConfigError("{}", config::located(plan, error.what()));
  }
  return plan.config.output_dir;
}

/// Writes a file about the run. Whatever happens to it, the run has ended as it has.
void leave(const char* name, const std::function<void()>& write) {
  try {
    write();
  } catch (const std::exception& error) {
    say("trainer: no {} was written: {}\n", name, error.what());
  }
}

/// The update whose weights a finished run has saved.
int64_t saved_step(const config::Config& config) {
  const config::CheckpointConfig& options = config.checkpoint;
  if (options.load_best_model_at_end && options.metric_for_best_model != "none") {
    const auto checkpoints = checkpoint::find_checkpoints(config.output_dir);
    const checkpoint::Found* const best = checkpoint::best_checkpoint(checkpoints, options.metric_for_best_model);
    if (best != nullptr) return best->step;
  }
  return std::numeric_limits<int64_t>::max();
}

}  // namespace

Leadership::Leadership(const config::Plan& plan)
    : config_(plan.config), lock_(with_checked_keys(plan)), owner_(config_.output_dir, lock_.who()) {
  raise_epoch(checkpoint::newest_epoch(config_.output_dir));
  tracking_.emplace(config_);
}

void Leadership::raise_epoch(int64_t above) {
  lock_.raise_epoch(above);
  owner_ = FolderOwner(config_.output_dir, lock_.who());
}

std::string Leadership::superseded() const {
  return checkpoint::superseded(owner_);
}

void Leadership::leave_files(const Outcome& outcome, const Kept& kept) const try {
  const std::string& folder = config_.output_dir;
  checkpoint::require_leads(owner_);
  leave("outcome.json", [&] { write_outcome(outcome, kept, folder); });
  const bool has_updates = outcome.code == kDone || outcome.step >= 0;
  std::error_code unknown;
  const auto metrics = std::filesystem::status(folder + "/metrics.jsonl", unknown);
  if (!has_updates || metrics.type() == std::filesystem::file_type::not_found) return;
  leave("report.html", [&] { report::write_report(folder); });
  if (outcome.code == kDone) leave("README.md", [&] { report::write_model_card(folder, folder, saved_step(config_)); });
} catch (const PeerError&) {  // the folder was taken over, which is the outcome itself
} catch (const MachineError& error) {
  say("trainer: no outcome.json{} was written: {}\n",
      outcome.code == kDone ? ", report.html or README.md" : " or report.html", error.what());
}

}  // namespace trainer::launch
