#include "engine/checkpoint/leader_epoch.h"

#include <fmt/format.h>

#include "engine/base/errors.h"
#include "engine/checkpoint/checkpoint_folder.h"
#include "engine/checkpoint/contents.h"

namespace trainer::checkpoint {
namespace {

struct Newest {
  std::string name;
  int64_t epoch = 0;
};

Newest newest_of(const std::filesystem::path& output_dir) {
  const std::vector<Found> all = find_checkpoints(output_dir);
  for (auto found = all.rbegin(); found != all.rend(); ++found) {
    try {
      return {found->folder.filename().string(), read_contents(found->folder).leader_epoch};
    } catch (const Error&) {  // damaged, or removed meanwhile
    }
  }
  return {};
}

std::string superseded_by_checkpoint(const FolderOwner& owner) {
  if (owner.epoch() == 0) return "";
  const Newest newest = newest_of(owner.folder());
  if (newest.epoch <= owner.epoch()) return "";
  return fmt::format(
      "output folder taken over: {}\n  {} was saved under leader epoch {}\n  while this run ({}) was paused or cut "
      "off; this run no longer writes to it",
      owner.folder().string(), newest.name, newest.epoch, owner.name());
}

}  // namespace

int64_t newest_epoch(const std::filesystem::path& output_dir) {
  return newest_of(output_dir).epoch;
}

std::string superseded(const FolderOwner& owner) {
  const std::string why = owner.taken_over();
  return why.empty() ? superseded_by_checkpoint(owner) : why;
}

void require_leads(const FolderOwner& owner) {
  owner.require();
  if (const std::string why = superseded_by_checkpoint(owner); !why.empty()) throw PeerError("{}", why);
}

}  // namespace trainer::checkpoint
