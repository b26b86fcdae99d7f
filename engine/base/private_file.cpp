#include "engine/base/private_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/errors.h"
#include "engine/base/files.h"

namespace trainer {
namespace {

/// A group of ours may have members. What only the group can read, as an orchestrator mounts a secret, isn't our file.
bool others_may_read(const struct stat& about) {
  const bool group_may = about.st_uid == geteuid() && about.st_gid != 0 && (about.st_mode & S_IRWXG) != 0;
  return group_may || (about.st_mode & S_IRWXO) != 0;
}

}  // namespace

std::string read_private_file(const std::filesystem::path& path, int64_t limit) {
  std::string content;
  try {
    content = read_file(path, limit);
  } catch (const InputError& error) {
    throw ConfigError("{}", error.what());
  }
  struct stat about {};
  if (stat(path.c_str(), &about) == 0 && others_may_read(about))
    throw ConfigError("other users of this machine can read the file (its mode is {:o}): `chmod 600 {}`",
                      about.st_mode & 0777, path.string());
  return content;
}

}  // namespace trainer
