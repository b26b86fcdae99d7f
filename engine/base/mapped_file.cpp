#include "engine/base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "engine/base/errors.h"
#include "engine/base/file_descriptor.h"
#include "engine/base/files.h"

namespace trainer {

MappedFile::MappedFile(const std::filesystem::path& path) {
  FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));  // a named pipe must not block us
  struct stat about {};
  if (!file || fstat(file.get(), &about) != 0) {
    throw InputError("cannot read {}: {}", path.string(), std::strerror(errno));
  }
  if (!S_ISREG(about.st_mode)) {
    throw InputError("cannot read {}: it is {}", path.string(),
                     S_ISDIR(about.st_mode) ? "a folder" : "not a regular file");
  }
  size_ = static_cast<size_t>(about.st_size);
  if (size_ == 0) return;
  data_ = mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (data_ == MAP_FAILED) throw machine_error("map into memory", path, errno);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) munmap(data_, size_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

}  // namespace trainer
