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

std::string manifest_digest(const fs::path& checkpoint) {
  return checkpoint::digest_of_file("xxh3", checkpoint / checkpoint::kManifestFile);
}

Holdings holdings_of(const fs::path& output_dir, const std::string& whole) {
  Holdings holdings;
  const std::vector<checkpoint::Found> all = checkpoint::find_checkpoints(output_dir);
  for (auto found = all.rbegin(); found != all.rend(); ++found) {
    const std::string name = found->folder.filename().string();
    try {
      const checkpoint::Contents contents = checkpoint::read_contents(found->folder);
      for (const checkpoint::StoredFile& file : contents.files) checkpoint::check_size(found->folder, file);
      if (holdings.newest.empty() && name != whole) checkpoint::verify_files(found->folder, contents);
      holdings.checkpoints[name] = manifest_digest(found->folder);
      if (!holdings.newest.empty()) continue;
      holdings.newest = name;
      holdings.epoch = contents.leader_epoch;
    } catch (const Error&) {  // damaged: not held
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
  if (error != std::errc() || holdings.epoch < 0 || holdings.epoch >= kMostEpochs || (!holdings.newest.empty() && holdings.step() < 0))
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
