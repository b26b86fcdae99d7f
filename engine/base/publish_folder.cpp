#include "engine/base/publish_folder.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "engine/base/errors.h"
#include "engine/base/file_descriptor.h"
#include "engine/base/file_operations.h"
#include "engine/base/files.h"
#include "engine/base/object_store.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;
namespace ops = file_operations;

void sync_tree(const fs::path& folder) {
  try {
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
      if (entry.is_regular_file() || entry.is_directory()) sync_path(entry.path());
    }
  } catch (const fs::filesystem_error& error) {
    throw machine_error("list", folder, error.code().value());
  }
  sync_path(folder);
}

/// Replaces the folder `final` by `temp` and deletes the old one. Returns the errno of a failure, after which `final`
/// is unchanged; 0: none.
int replace_folder(const fs::path& temp, const fs::path& final) {
  fs::path old = temp;
  if (ops::exchange(temp, final) != 0) {
    if (errno != EINVAL && errno != ENOSYS) return errno;
    // This file system (NFS) cannot exchange two folders: for a moment neither has the final name.
    old += ".old";
    ops::remove_tree(old);  // of a process that died in here; `final` exists, so nothing is lost
    if (rename_folder(final, old) != 0) return errno;
    if (rename_folder(temp, final) != 0) {
      const int error = errno;
      ops::rename(old, final);
      return error;
    }
  }
  sync_path(folder_of(final));
  ops::remove_tree(old);  // a failure doesn't matter: the new folder is published, and a leftover is harmless
  return 0;
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  try {
    for (const fs::directory_entry& entry : fs::directory_iterator(folder))
      names.push_back(entry.path().filename().string());
  } catch (const fs::filesystem_error& error) {
    throw machine_error("list", folder, error.code().value());
  }
  std::sort(names.begin(), names.end());
  return names;
}

// Note [File systems that rename no folders], also for what follows.
constexpr const char* kUnfinished = ".unfinished";

/// False, with errno set, when there is no room for the mark.
bool mark_unfinished(const fs::path& folder) {
  return static_cast<bool>(FileDescriptor(ops::create(folder / kUnfinished)));
}

void move_files(const fs::path& temp, const fs::path& final, const std::string& last) {
  const auto move = [&](const std::string& name) {
    if (ops::rename(temp / name, final / name) != 0) throw machine_error("publish", final / name, errno);
  };
  const std::vector<std::string> names = names_in(temp);
  if (!mark_unfinished(temp)) throw machine_error("write", temp / kUnfinished, errno);
  if (ops::make_folder(final) != 0 && errno != EEXIST) throw machine_error("create", final, errno);
  const std::vector<std::string> before = names_in(final);
  try {
    move(kUnfinished);
  } catch (const MachineError&) {  // if the run has been taken over, `temp` is gone
    rmdir(final.c_str());          // if it is empty
    throw;
  }
  for (const std::string& name : names)
    if (name != last) move(name);
  sync_path(final);
  move(last);
  sync_path(final);
  sync_path(folder_of(final));
  // As in replace_folder(), what fails from here on doesn't matter.
  for (const std::string& name : before)
    if (!std::binary_search(names.begin(), names.end(), name)) ops::remove_file(final / name);
  ops::remove_file(final / kUnfinished);
  ops::remove_tree(temp);
}

/// Removes a marked folder, the mark last. As remove_tree().
int remove_marked(const fs::path& folder) {
  for (const std::string& name : names_in(folder))
    if (name != kUnfinished && ops::remove_file(folder / name) != 0) return -1;
  return ops::remove_tree(folder);
}

}  // namespace

int rename_folder(const fs::path& from, const fs::path& to) {
  if (is_in_object_store(from)) {
    errno = EOPNOTSUPP;
    return -1;
  }
  const int result = ops::rename(from, to);
  // gcsfuse, other object stores, overlays
  if (result != 0 && (errno == EMFILE || errno == ENOSYS || errno == EXDEV)) errno = EOPNOTSUPP;
  return result;
}

void publish_folder(const fs::path& temp, const fs::path& final, const std::string& last) {
  sync_tree(temp);
  if (rename_folder(temp, final) == 0) return sync_path(folder_of(final));
  const int error = errno == ENOTEMPTY || errno == EEXIST ? replace_folder(temp, final) : errno;
  if (error == 0) return;
  if (error != EOPNOTSUPP) throw machine_error("publish", final, error);
  if (!last.empty()) return move_files(temp, final, last);
  if (ops::rename(temp, final) != 0)  // not as a whole
    throw MachineError(
        "cannot publish {}: {}\n  this file system renames no folders: use another one, or mount it so that it does "
        "(gcsfuse: --rename-dir-limit)",
        final.string(), std::strerror(errno));
  sync_path(folder_of(final));
}

void remove_folder(const fs::path& folder, const std::string& first) {
  const fs::path doomed = folder.parent_path() / ("." + folder.filename().string() + ".removing");
  bool gone = rename_folder(folder, doomed) == 0 && ops::remove_tree(doomed) == 0;
  if (!gone && errno == EOPNOTSUPP) {
    mark_unfinished(folder);  // without it, as on a full disk, a crash leaves files that nobody removes
    gone = ops::remove_file(folder / first) == 0 && remove_marked(folder) == 0;
  }
  if (!gone) throw machine_error("remove", folder, errno);
}

void settle_folder(const fs::path& folder, const std::string& last) {
  std::error_code error;
  if (!fs::exists(folder / kUnfinished, error)) return;
  if (fs::exists(folder / last, error))
    ops::remove_file(folder / kUnfinished);
  else if (!error)
    remove_marked(folder);
}

}  // namespace trainer
