#include "engine/base/byte_sink.h"

#include <fcntl.h>

#include <cerrno>

#include "engine/base/errors.h"
#include "engine/base/file_operations.h"
#include "engine/base/files.h"

namespace trainer {
namespace ops = file_operations;
namespace {

constexpr int64_t kSendEvery = int64_t{32} << 20;  // bytes

}  // namespace

FileSink::~FileSink() {
  if (file_) ops::remove_file(path_);
}

void FileSink::begin(int64_t bytes) {
  file_.reset(ops::create(path_));
  if (!file_ || ops::reserve(file_.get(), bytes) != 0) throw machine_error("write", path_, errno);
}

void FileSink::write(std::string_view bytes) {
  write_all(file_.get(), bytes, path_);
  written_ += static_cast<int64_t>(bytes.size());
  if (written_ - on_its_way_ < kSendEvery) return;
  // Only starts writeback, so that finish() has less to wait for; finish() checks whether it succeeded.
  sync_file_range(file_.get(), on_its_way_, written_ - on_its_way_, SYNC_FILE_RANGE_WRITE);
  on_its_way_ = written_;
}

void FileSink::finish() {
  if (ops::sync(file_.get()) != 0) throw machine_error("sync to disk", path_, errno);
  if (ops::close(file_.release()) != 0) {
    const int error = errno;
    ops::remove_file(path_);
    throw machine_error("write", path_, error);
  }
}

}  // namespace trainer
