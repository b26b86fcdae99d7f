#include "engine/tensorfile/safetensors_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include "engine/base/edit_distance.h"
#include "engine/base/errors.h"
#include "engine/base/files.h"

namespace trainer::tensorfile {
namespace {

constexpr std::string_view kLfsPointer = "version https://git-lfs";

InputError unreadable(const std::filesystem::path& path, std::string_view why) {
  return InputError("cannot read {}: {}", path.string(), why);
}

}  // namespace

/// The whole file, mapped into memory for reading.
class SafetensorsFile::Mapping {
 public:
  Mapping(int fd, int64_t size, const std::filesystem::path& path) : size_(static_cast<size_t>(size)) {
    data_ = mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data_ == MAP_FAILED) throw machine_error("map into memory", path, errno);
  }
  ~Mapping() { munmap(data_, size_); }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  char* at(int64_t offset) const { return static_cast<char*>(data_) + offset; }

 private:
  void* data_;
  size_t size_;
};

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path)
    : path_(path), file_(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {  // a named pipe must not block us
  if (!file_) throw unreadable(path, std::strerror(errno));
  struct stat about {};
  if (fstat(file_.get(), &about) != 0) throw unreadable(path, std::strerror(errno));
  if (!S_ISREG(about.st_mode))
    throw unreadable(path, S_ISDIR(about.st_mode) ? "it is a folder" : "it is not a regular file");
  size_ = about.st_size;
  posix_fadvise(file_.get(), 0, 0, POSIX_FADV_SEQUENTIAL);  // more read-ahead, for mapped pages too

  int64_t data_begin = 0;
  const std::string json = read_header(data_begin);
  header_ = parse_header(json, size_ - data_begin, path_);
  by_name_.reserve(header_.tensors.size());
  for (TensorInfo& tensor : header_.tensors) {
    tensor.offset += data_begin;
    by_name_.emplace(tensor.name, &tensor);
  }
  mapping_ = std::make_shared<const Mapping>(file_.get(), size_, path_);
}

std::string SafetensorsFile::read_header(int64_t& data_begin) {
  constexpr int64_t kSizeBytes = 8;
  std::string start(static_cast<size_t>(std::min<int64_t>(size_, 64)), '\0');
  read_bytes(start.data(), 0, static_cast<int64_t>(start.size()));
  if (start.starts_with(kLfsPointer))
    throw InputError("{} is a Git LFS pointer, not the weights\n  run `git lfs pull` in its folder", path_.string());
  if (size_ < kSizeBytes)
    throw InputError(
        "{} is not a safetensors file: it has {} bytes, at least {} are needed\n  copy, download or save it again",
        path_.string(), size_, kSizeBytes);
  uint64_t length = 0;
  std::memcpy(&length, start.data(), kSizeBytes);
  if (length > static_cast<uint64_t>(kMaxHeaderBytes))
    throw InputError(
        "{} is not a safetensors file: its first 8 bytes say that its header has {} bytes, at most {} are allowed",
        path_.string(), length, kMaxHeaderBytes);
  data_begin = kSizeBytes + static_cast<int64_t>(length);
  if (data_begin > size_)
    throw InputError("{} is truncated: its header has {} bytes, the whole file {}\n  copy, download or save it again",
                     path_.string(), length, size_);
  std::string json(length, '\0');
  read_bytes(json.data(), kSizeBytes, static_cast<int64_t>(length));
  return json;
}

std::vector<std::string> SafetensorsFile::names() const {
  std::vector<std::string> names;
  for (const TensorInfo& tensor : header_.tensors) names.push_back(tensor.name);
  return names;
}

const TensorInfo* SafetensorsFile::find(const std::string& name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : found->second;
}

const TensorInfo& SafetensorsFile::info(const std::string& name) const {
  const TensorInfo* info = find(name);
  if (info == nullptr)
    throw InputError("{} has no tensor {}{}", path_.string(), shown_name(name), did_you_mean(name, names()));
  return *info;
}

at::Tensor SafetensorsFile::tensor(const std::string& name) const {
  const TensorInfo& info = this->info(name);
  const at::ScalarType type = scalar_type(info);
  check_size();
  char* data = mapping_->at(info.offset);
  if (reinterpret_cast<uintptr_t>(data) % c10::elementSize(type) != 0)
    return read(name, 0, info.numel()).view(info.shape);
  check_values(info, {data, static_cast<size_t>(info.bytes)});
  return at::from_blob(
      data, info.shape, [mapping = mapping_](void*) {}, at::TensorOptions().dtype(type));
}

at::Tensor SafetensorsFile::read(const std::string& name, int64_t begin, int64_t end) const {
  at::Tensor out = at::empty({std::max<int64_t>(end - begin, 0)}, at::TensorOptions().dtype(scalar_type(info(name))));
  read_into(name, begin, out);
  return out;
}

void SafetensorsFile::read_into(const std::string& name, int64_t begin, const at::Tensor& out) const {
  const TensorInfo& info = this->info(name);
  require(out.is_contiguous() && out.device().is_cpu() && out.scalar_type() == scalar_type(info),
          "{} must be read into a contiguous {} tensor on the CPU", shown_name(name), info.dtype->name);
  require(begin >= 0 && out.numel() <= info.numel() - begin, "elements {} to {} of {} are out of range: it has {}",
          begin, begin + out.numel(), shown_name(name), info.numel());
  const int64_t element_bytes = info.dtype->bits / 8;
  const int64_t bytes = out.numel() * element_bytes;
  if (bytes == 0) return;
  read_bytes(static_cast<char*>(out.mutable_data_ptr()), info.offset + begin * element_bytes, bytes);
  check_values(info, {static_cast<const char*>(out.const_data_ptr()), static_cast<size_t>(bytes)});
}

void SafetensorsFile::read_bytes(char* out, int64_t offset, int64_t count) const {
  while (count > 0) {
    const ssize_t done = pread(file_.get(), out, static_cast<size_t>(count), offset);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) throw unreadable(path_, std::strerror(errno));
    if (done == 0) check_size();
    out += done, offset += done, count -= done;
  }
}

void SafetensorsFile::check_size() const {
  struct stat about {};
  if (fstat(file_.get(), &about) != 0) throw unreadable(path_, std::strerror(errno));
  if (about.st_size != size_)
    throw InputError(
        "{} was changed while it was read: it had {} bytes and now has {}\n  wait for the other program, then run "
        "again",
        path_.string(), size_, about.st_size);
}

at::ScalarType SafetensorsFile::scalar_type(const TensorInfo& info) const {
  if (info.dtype->type == at::ScalarType::Undefined)
    throw InputError(
        "{}: tensor {} has the dtype {}, which does not support computation\n  convert the weights to F32 or BF16",
        path_.string(), shown_name(info.name), info.dtype->name);
  return info.dtype->type;
}

void SafetensorsFile::check_values(const TensorInfo& info, std::string_view bytes) const {
  if (info.dtype->type != at::ScalarType::Bool) return;  // for all other types, any bits are valid
  const auto wrong = std::find_if(bytes.begin(), bytes.end(), [](char byte) { return byte != 0 && byte != 1; });
  if (wrong != bytes.end())
    throw InputError("{}: tensor {} of dtype BOOL holds the byte {}; only 0 and 1 are allowed", path_.string(),
                     shown_name(info.name), static_cast<unsigned char>(*wrong));
}

}  // namespace trainer::tensorfile
