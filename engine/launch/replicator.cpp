#include "engine/launch/replicator.h"

#include <algorithm>

#include <fmt/format.h>

#include "engine/base/errors.h"
#include "engine/checkpoint/checkpoint_folder.h"
#include "engine/launch/background.h"
#include "engine/launch/screen.h"

namespace trainer::launch {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds kListEvery{1};  // for new checkpoints

}  // namespace

Replicator::Replicator(fs::path folder, int64_t copies, const std::vector<Holdings>& held, Machines& machines,
                       RunStatus& status)
    : folder_(std::move(folder)), copies_(copies), machines_(machines), status_(status) {
  for (std::size_t i = 0; i < held.size(); ++i) {
    const Machine& machine = machines.others().at(i);
    if (held[i].why_not.empty())
      keepers_.push_back({.machine = machine.number, .held = held[i].checkpoints});
    else
      say("trainer: warning: {} keeps no copies of checkpoints: {}\n", machine.name, held[i].why_not);
  }
  if (std::ssize(keepers_) < copies_)
    say("trainer: warning: checkpoint.replicas is {}, but {} other machine{} can keep copies now: checkpoints have "
        "fewer copies until more join\n",
        copies_ + 1, keepers_.size(), keepers_.size() == 1 ? "" : "s");
}

Replicator::~Replicator() {
  if (!finished_) return;
  const auto done =
      std::count_if(keepers_.begin(), keepers_.end(), [this](const Keeper& keeper) { return due(keeper).empty(); });
  if (done < copies_)
    say("trainer: warning: the run has ended, but {} of {} other machines have copies of all of its checkpoints and of "
        "its model (checkpoint.replicas)\n",
        done, copies_);
}

bool Replicator::take(Machine& from, LinkMessage& message) {
  if (message.op != LinkOp::kCopyWant && message.op != LinkOp::kCopyTook && message.op != LinkOp::kCopyEnd)
    return false;
  for (Keeper& keeper : keepers_) {
    if (keeper.machine != from.number || !keeper.sender) continue;
    try {
      keeper.sender->take(message);
    } catch (const PeerError& error) {
      from.lost = error.what();
      from.line.close();
    }
  }
  return true;
}

void Replicator::serve() {
  if (Clock::now() >= next_look_) look();
  for (Keeper& keeper : keepers_)
    if (keeper.sender) serve(keeper);
  for (const std::size_t number : chosen()) {
    Keeper& keeper = keepers_[number];
    if (keeper.sender || Clock::now() < keeper.not_before) continue;
    const std::vector<Saved> next = due(keeper);
    if (next.empty()) continue;
    keeper.sending = next.front();
    const std::string& name = keeper.sending.name;
    const bool is_of_run = name == kMetrics || name == kModel;
    keeper.sender = std::make_unique<CopySender>(is_of_run ? folder_ : folder_ / name, [=, folder = folder_] {
      return is_of_run ? offer_of_run(folder, /*all=*/name == kModel) : offer_of_checkpoint(folder, name);
    });
  }
}

void Replicator::serve(Keeper& keeper) {
  keeper.sender->serve(machines_.numbered(keeper.machine).line);
  if (keeper.sender->has_ended()) settle(keeper);
}

void Replicator::settle(Keeper& keeper) {
  const std::unique_ptr<CopySender> ended = std::move(keeper.sender);
  if (ended->why().empty()) {
    keeper.held[keeper.sending.name] = keeper.sending.digest;
    keeper.failures = 0;
    return note_replicated();
  }
  constexpr int kMostFailures = 3;
  if (ended->receiver_failed() || ++keeper.failures >= kMostFailures) return give_up(keeper, ended->why());
  keeper.not_before = Clock::now() + kListEvery;  // the run has changed the files meanwhile: look again
}

void Replicator::give_up(Keeper& keeper, const std::string& why) {
  keeper.why_not = why;
  if (is_lost(keeper) || std::exchange(warned_, why) == why) return;
  say("trainer: warning: {} has no copy on {}: {}\n", keeper.sending.name, machines_.numbered(keeper.machine).name,
      why);
}

/// What the folder has now.
void Replicator::look() {
  next_look_ = Clock::now() + kListEvery;
  const std::string newest = newest_whole();
  std::vector<checkpoint::Found> all;
  try {
    all = checkpoint::find_checkpoints(folder_);
  } catch (const MachineError&) {
    return;  // the next look may be better
  }
  saved_.clear();
  for (auto found = all.rbegin(); found != all.rend(); ++found) {
    const std::string name = found->folder.filename().string();
    try {
      const auto time = fs::last_write_time(found->folder / checkpoint::kManifestFile);
      auto& [known, digest] = digests_[name];
      if (digest.empty() || known != time) digest = manifest_digest(found->folder);
      known = time;
      saved_.push_back({name, digest});
    } catch (const fs::filesystem_error&) {  // removed meanwhile
    } catch (const InputError&) {
    }
  }
  note_replicated();
  if (newest_whole() == newest) return;
  for (Keeper& keeper : keepers_) {  // its disk may have room again
    keeper.why_not.clear();
    keeper.failures = 0;
  }
}

/// What the keeper lacks, in the order of copying: the metrics first, so that a run that resumes from the newest
/// checkpoint has those of all steps before it.
std::vector<Replicator::Saved> Replicator::due(const Keeper& keeper) const {
  std::vector<Saved> lacks = saved_;
  const std::string newest = saved_.empty() ? "" : saved_.front().digest;
  if (finished_) lacks.insert(lacks.begin() + (saved_.empty() ? 0 : 1), Saved{kModel, newest});
  if (!saved_.empty()) lacks.insert(lacks.begin(), Saved{kMetrics, newest});
  std::erase_if(lacks, [&](const Saved& saved) {
    const auto held = keeper.held.find(saved.name);
    return held != keeper.held.end() && held->second == saved.digest;
  });
  return lacks;
}

/// The machines that are to keep copies.
std::vector<std::size_t> Replicator::chosen() const {
  std::vector<std::size_t> chosen;
  for (std::size_t i = 0; i < keepers_.size(); ++i)
    if (keepers_[i].why_not.empty() && !is_lost(keepers_[i]) && std::ssize(chosen) < copies_) chosen.push_back(i);
  return chosen;
}

void Replicator::note_replicated() {
  for (const Saved& saved : saved_) {
    const auto copies = std::count_if(keepers_.begin(), keepers_.end(), [&](const Keeper& keeper) {
      const auto held = keeper.held.find(saved.name);
      return held != keeper.held.end() && held->second == saved.digest;
    });
    if (copies < copies_) continue;
    status_.replicated = saved.name;
    return;
  }
}

std::optional<Clock::time_point> Replicator::next_deadline() const {
  const bool sends =
      std::any_of(keepers_.begin(), keepers_.end(), [](const Keeper& one) { return one.sender != nullptr; });
  return sends ? std::min(next_look_, Clock::now() + kLookAgain) : next_look_;
}

void Replicator::ranks_have_ended(bool finished) {
  finished_ = finished;
  look();
  for (Keeper& keeper : keepers_) {  // the last time that it can be tried again
    keeper.why_not.clear();
    keeper.failures = 0;
  }
}

bool Replicator::is_busy() const {
  const auto able = chosen();
  return std::any_of(able.begin(), able.end(),
                     [&](std::size_t i) { return keepers_[i].sender || !due(keepers_[i]).empty(); });
}

}  // namespace trainer::launch
