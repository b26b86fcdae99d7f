#include "engine/metrics/appended_file.h"

#include <fcntl.h>

#include <cerrno>
#include <utility>

#include "engine/base/file_operations.h"
#include "engine/base/files.h"
#include "engine/base/log.h"

namespace trainer::metrics {
namespace {

bool is_out_of_space(int error) {
  return error == ENOSPC || error == EDQUOT || error == EFBIG;
}

}  // namespace

AppendedFile::AppendedFile(std::filesystem::path path, int flags)
    : path_(std::move(path)), file_(open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | flags, 0666)) {
  if (!file_) throw machine_error("write", path_, errno);
}

AppendedFile::~AppendedFile() {
  if (!file_ || waiting_.empty()) return;
  try {
    if (catch_up() != 0) log::warning("{}: the disk is still full: its last records are missing", path_.string());
  } catch (const MachineError& error) {
    log::warning("{}", error.what());
  }
}

void AppendedFile::write(std::string_view record) {
  if (waiting_.size() + record.size() > kMostWaiting) {
    ++dropped_;
  } else {
    waiting_ += record;
  }
  const int error = catch_up();
  const bool was_full = std::exchange(is_full_, error != 0);
  if (is_full_ && !was_full)
    log::warning("{}\n  Training continues; records wait in memory until there is space.",
                 machine_error("write", path_, error).what());
  if (was_full && !is_full_)
    log::warning("{}: written again; {} records were dropped", path_.string(), std::exchange(dropped_, 0));
}

int AppendedFile::catch_up() {
  while (!waiting_.empty()) {
    const ssize_t count = file_operations::write(file_.get(), waiting_.data(), waiting_.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && is_out_of_space(errno)) return errno;
    if (count < 0) throw machine_error("write", path_, errno);
    waiting_.erase(0, static_cast<size_t>(count));
  }
  return 0;
}

}  // namespace trainer::metrics
