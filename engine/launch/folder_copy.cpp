#include "engine/launch/folder_copy.h"

#include <algorithm>
#include <charconv>
#include <fstream>

#include "engine/base/errors.h"
#include "engine/checkpoint/digest.h"

namespace trainer::launch {
namespace {

namespace fs = std::filesystem;

constexpr const char* kDigest = "xxh3";
constexpr const char* kMetrics = "metrics.jsonl";

}  // namespace

bool is_weights(const checkpoint::StoredFile& file) {
  return file.name.ends_with(".safetensors");
}

int64_t CopyOffer::bytes() const {
  int64_t sum = 0;
  for (const checkpoint::StoredFile& file : files) sum += file.bytes;
  return sum;
}

LinkMessage to_message(const CopyOffer& offer) {
  LinkMessage message{.op = LinkOp::kCopyOffer, .strings = {offer.checkpoint}};
  for (const checkpoint::StoredFile& file : offer.files)
    message.strings.insert(message.strings.end(), {file.name, std::to_string(file.bytes), file.digest});
  return message;
}

CopyOffer read_offer(const LinkMessage& message) {
  const auto& strings = message.strings;
  if (message.op != LinkOp::kCopyOffer || strings.size() % 3 != 1) throw PeerError("malformed message: no offer");
  CopyOffer offer{.checkpoint = strings.front(), .files = {}};
  if (!offer.checkpoint.empty() && step_of_checkpoint(offer.checkpoint) < 0)
    throw PeerError("malformed message: '{}' is not a checkpoint", offer.checkpoint);
  for (std::size_t i = 1; i < strings.size(); i += 3) {
    checkpoint::StoredFile file{strings[i], -1, strings[i + 2]};
    const std::string& size = strings[i + 1];
    std::from_chars(size.data(), size.data() + size.size(), file.bytes);
    if (file.bytes < 0 || file.name.empty() || file.name.front() == '.' || file.name.find('/') != std::string::npos)
      throw PeerError("malformed message: a file '{}' of '{}' bytes is offered", file.name, size);
    offer.files.push_back(std::move(file));
  }
  return offer;
}

int64_t step_of_checkpoint(const std::string& name) {
  constexpr std::string_view kPrefix = "checkpoint-";
  int64_t step = -1;
  if (!name.starts_with(kPrefix)) return -1;
  const char* const end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data() + kPrefix.size(), end, step);
  return error == std::errc() && stop == end ? step : -1;
}

CopyOffer offer_of_checkpoint(const fs::path& output_dir, const std::string& name) {
  const fs::path folder = output_dir / name;
  CopyOffer offer{.checkpoint = name, .files = checkpoint::read_contents(folder).files};
  try {
    for (auto& file : checkpoint::other_files(folder, offer.files, kDigest)) offer.files.push_back(std::move(file));
    // other_files() leaves it out: it is what lists the others.
    const fs::path manifest = folder / checkpoint::kManifestFile;
    offer.files.push_back({checkpoint::kManifestFile, static_cast<int64_t>(fs::file_size(manifest)),
                           checkpoint::digest_of_file(kDigest, manifest)});
  } catch (const fs::filesystem_error& error) {  // the run has removed it meanwhile
    throw InputError("{}: {}", folder.string(), error.code().message());
  }
  return offer;
}

CopyOffer offer_of_run(const fs::path& output_dir, bool all) {
  CopyOffer offer;
  try {
    for (const fs::directory_entry& entry : fs::directory_iterator(output_dir)) {
      const std::string name = entry.path().filename().string();
      if (name.front() == '.' || !fs::is_regular_file(entry.symlink_status()) || (!all && name != kMetrics)) continue;
      const auto bytes = static_cast<int64_t>(entry.file_size());
      offer.files.push_back({name, bytes, digest_of_start(entry.path(), bytes)});
    }
  } catch (const fs::filesystem_error& error) {
    throw InputError("{}: {}", output_dir.string(), error.code().message());
  }
  // Weights last: they are published after what belongs to them.
  std::sort(offer.files.begin(), offer.files.end(), [](const auto& a, const auto& b) {
    return std::pair(is_weights(a), a.name) < std::pair(is_weights(b), b.name);
  });
  return offer;
}

std::string digest_of_start(const fs::path& path, int64_t bytes) {
  checkpoint::Digest digest(kDigest);
  std::ifstream file(path, std::ios::binary);
  std::string part;
  for (int64_t left = bytes; left > 0; left -= std::ssize(part)) {
    part.resize(static_cast<std::size_t>(std::min(left, kCopyPart)));
    if (!file.read(part.data(), std::ssize(part))) throw InputError("cannot read {} bytes of {}", bytes, path.string());
    digest.add(part);
  }
  return digest.text();
}

}  // namespace trainer::launch
