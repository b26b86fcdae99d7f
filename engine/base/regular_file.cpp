#include "engine/base/regular_file.h"

#include <fcntl.h>
#include <sys/vfs.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "engine/base/errors.h"

namespace trainer {
namespace {

/// statfs's f_type, see statfs(2): ext2 to ext4, XFS, Btrfs, F2FS, ZFS, bcachefs, tmpfs, ramfs, overlayfs, SquashFS and
/// EROFS.
constexpr uint32_t kLocal[] = {0xEF53,     0x58465342, 0x9123683E, 0xF2F52010, 0x2FC12FC1, 0xCA451A4E,
                               0x01021994, 0x858458F6, 0x794C7630, 0x73717368, 0xE0F5E1E2};

bool is_on_local_system(int file) {
  struct statfs system {};
  if (fstatfs(file, &system) != 0) return false;
  return std::find(std::begin(kLocal), std::end(kLocal), static_cast<uint32_t>(system.f_type)) != std::end(kLocal);
}

InputError unreadable(const std::filesystem::path& path, const char* why) {
  return InputError("cannot read {}: {}", path.string(), why);
}

constexpr const char* kAgain = "wait for the other program, then run again";

}  // namespace

RegularFile::RegularFile(const std::filesystem::path& path)
    : path_(path), file_(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {  // a named pipe must not block us
  if (!file_ || fstat(file_.get(), &opened_) != 0) throw unreadable(path, std::strerror(errno));
  if (!S_ISREG(opened_.st_mode))
    throw unreadable(path, S_ISDIR(opened_.st_mode) ? "it is a folder" : "it is not a regular file");
  local_ = is_on_local_system(file_.get());
}

void RegularFile::check_unchanged() const {
  struct stat now {};
  if (fstat(file_.get(), &now) != 0) throw unreadable(path_, std::strerror(errno));
  if (now.st_size != opened_.st_size)
    throw InputError("{} was changed while it was in use: it had {} bytes and now has {}\n  {}", path_.string(),
                     opened_.st_size, now.st_size, kAgain);
  if (!local_) return;
  if (now.st_mtim.tv_sec != opened_.st_mtim.tv_sec || now.st_mtim.tv_nsec != opened_.st_mtim.tv_nsec)
    throw InputError("{} was changed while it was in use: something wrote to it\n  {}", path_.string(), kAgain);
}

}  // namespace trainer
