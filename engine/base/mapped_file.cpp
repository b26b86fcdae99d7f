#include "engine/base/mapped_file.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <utility>

#include "engine/base/errors.h"
#include "engine/base/files.h"

namespace trainer {

MappedFile::MappedFile(const RegularFile& file) : size_(static_cast<size_t>(file.size())) {
  if (size_ == 0) return;
  data_ = mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.descriptor(), 0);
  if (data_ == MAP_FAILED) throw machine_error("map into memory", file.path(), errno);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) munmap(data_, size_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

bool MappedFile::read_now(std::string_view bytes) {
  const auto begin = reinterpret_cast<uintptr_t>(bytes.data());
  const uintptr_t first = begin & ~(static_cast<uintptr_t>(sysconf(_SC_PAGESIZE)) - 1);
  void* const at = reinterpret_cast<void*>(first);
  const size_t length = begin + bytes.size() - first;
  if (length == 0) return true;
  madvise(at, length, MADV_HUGEPAGE);
  // What doesn't work for other reasons, such as a kernel before Linux 5.14, is read when it is used.
  return madvise(at, length, MADV_POPULATE_READ) == 0 || (errno != EFAULT && errno != EHWPOISON);
}

}  // namespace trainer
