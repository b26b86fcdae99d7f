#include "engine/launch/holdings.h"

#include <charconv>
#include <sstream>

#include <fmt/format.h>

#include "engine/base/errors.h"
#include "engine/base/folder_lock.h"
#include "engine/checkpoint/checkpoint_folder.h"
#include "engine/checkpoint/contents.h"
#include "engine/checkpoint/digest.h"
#include "engine/launch/folder_copy.h"

namespace trainer::launch {

namespace fs = std::filesystem;

int64_t Holdings::step() const {
  return step_of_checkpoint(newest);
}

bool Holdings::is_newer_than(const Holdings& other) const {
  return !newest.empty() && (other.newest.empty() || std::pair(epoch, step()) > std::pair(other.epoch, other.step()));
}

std::string manifest_digest(const fs::path& checkpoint) {
  return checkpoint::digest_of_file("xxh3", checkpoint / checkpoint::kManifestFile);
}

Holdings holdings_of(const fs::path& output_dir, const std::string& whole) {
  Holdings holdings;
  std::map<std::pair<int64_t, int64_t>, std::pair<fs::path, checkpoint::Contents>> all;  // by epoch and step
  for (const checkpoint::Found& found : checkpoint::find_checkpoints(output_dir)) {
    try {
      checkpoint::Contents contents = checkpoint::read_contents(found.folder);
      for (const checkpoint::StoredFile& file : contents.files) checkpoint::check_size(found.folder, file);
      holdings.checkpoints[found.folder.filename().string()] = manifest_digest(found.folder);
      all[{contents.leader_epoch, found.step}] = {found.folder, std::move(contents)};
    } catch (const Error&) {  // damaged: not held
    }
  }
  for (auto newest = all.rbegin(); newest != all.rend() && holdings.newest.empty(); ++newest) {
    const auto& [folder, contents] = newest->second;
    const std::string name = folder.filename().string();
    try {
      if (name != whole) checkpoint::verify_files(folder, contents);
      holdings.newest = name;
      holdings.epoch = contents.leader_epoch;
    } catch (const Error&) {
      holdings.checkpoints.erase(name);
    }
  }
  return holdings;
}

std::string to_text(const Holdings& holdings) {
  std::string why = holdings.why_not;
  for (char& c : why)
    if (c == '\n') c = ' ';
  std::string text = fmt::format("{}\n{}\n{}\n", why, holdings.newest, holdings.epoch);
  for (const auto& [name, digest] : holdings.checkpoints) text += fmt::format("{} {}\n", name, digest);
  return text;
}

Holdings holdings_from(const std::string& text) {
  Holdings holdings;
  std::istringstream lines(text);
  std::string epoch, line;
  std::getline(lines, holdings.why_not);
  std::getline(lines, holdings.newest);
  std::getline(lines, epoch);
  const auto [stop, error] = std::from_chars(epoch.data(), epoch.data() + epoch.size(), holdings.epoch);
  if (error != std::errc() || holdings.epoch < 0 || holdings.epoch >= kMostEpochs ||
      (!holdings.newest.empty() && holdings.step() < 0))
    throw PeerError("malformed message: no list of checkpoints");
  while (std::getline(lines, line)) {
    const std::size_t space = line.find(' ');
    if (space == std::string::npos || step_of_checkpoint(line.substr(0, space)) < 0)
      throw PeerError("malformed message: '{}' is not a checkpoint", line.substr(0, 100));
    holdings.checkpoints[line.substr(0, space)] = line.substr(space + 1);
  }
  return holdings;
}

}  // namespace trainer::launch
