#include "engine/launch/votes.h"

#include <algorithm>
#include <utility>

#include "engine/base/errors.h"
#include "engine/base/files.h"
#include "engine/checkpoint/leader_epoch.h"

namespace trainer::launch {

namespace fs = std::filesystem;

Votes::Votes(fs::path output_dir) : output_dir_(std::move(output_dir)) {
  constexpr int64_t kMostBytes = int64_t{16} << 20;
  if (!fs::exists(file())) return;  // it throws where that can't be known: a machine mustn't vote twice
  try {
    record_ = vote_record_from(read_file(file(), kMostBytes));
  } catch (const PeerError&) {
    throw InputError(
        "{} is damaged: it says which machines trained last\n  once no other machine runs this job, remove it",
        file().string());
  }
}

VoteRecord Votes::shown() const {
  VoteRecord shown = record_;
  shown.promised = std::max(shown.promised, checkpoint::newest_epoch(output_dir_));
  return shown;
}

bool Votes::vote(const Membership& next) {
  if (next.epoch <= record_.promised) return false;
  record_.promised = next.epoch;
  record_.voted.push_back(next);
  write();
  return true;
}

void Votes::begin(const Membership& next) {
  record_.agreed = next;
  std::erase_if(record_.voted, [&](const Membership& one) { return one.epoch <= next.epoch; });
  write();
}

void Votes::forget() {
  record_ = {};
  std::error_code ignored;
  fs::remove(file(), ignored);
}

void Votes::write() const {
  publish_file(file(), to_text(record_));
}

}  // namespace trainer::launch
