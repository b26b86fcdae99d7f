#include "data/cache/content_hash.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#define XXH_INLINE_ALL
#include <fmt/format.h>
#include <xxhash.h>

#include "engine/base/errors.h"
#include "engine/base/files.h"
#include "engine/base/mapped_file.h"

namespace trainer::data {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMostMemory = 1 << 12;  // bytes of a remembered hash

std::string digits(XXH128_hash_t hash) {
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

std::string content_hash(const std::string& path) {
  const MappedFile file(path);
  return digits(XXH3_128bits(file.bytes().data(), file.bytes().size()));
}

/// The memory only saves time: when it can't be read or written, the file is hashed again.
std::string remembered_hash(const std::string& path, const fs::path& memory) {
  const std::string state = file_state(path);
  const fs::path note = memory / text_hash(fs::absolute(path).string());
  try {
    const std::string text = read_file(note, kMostMemory);
    if (text.size() > 33 && text.substr(33) == state) return text.substr(0, 32);
  } catch (const Error&) {
  }
  const std::string hash = content_hash(path);
  try {
    publish_file(note, hash + "\n" + state);
  } catch (const Error&) {
  }
  return hash;
}

}  // namespace

std::string text_hash(std::string_view text) {
  return digits(XXH3_128bits(text.data(), text.size()));
}

std::string file_state(const std::string& path) {
  struct stat about {};
  if (stat(path.c_str(), &about) != 0) throw InputError("cannot read {}: {}", path, std::strerror(errno));
  return fmt::format("{} {} {} {}.{:09}", about.st_dev, about.st_ino, about.st_size, about.st_mtim.tv_sec,
                     about.st_mtim.tv_nsec);
}

std::vector<std::string> file_hashes(const std::vector<std::string>& paths, const fs::path& memory) {
  std::vector<std::string> hashes;
  for (const std::string& path : paths) hashes.push_back(remembered_hash(path, memory));
  return hashes;
}

}  // namespace trainer::data
