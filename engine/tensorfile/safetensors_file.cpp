#include "engine/tensorfile/safetensors_file.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include "engine/base/edit_distance.h"
#include "engine/base/errors.h"

namespace trainer::tensorfile {
namespace {

constexpr std::string_view kLfsPointer = "version https://git-lfs";

}  // namespace

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path) : file_(std::make_shared<const RegularFile>(path)) {
  posix_fadvise(file_->descriptor(), 0, 0, POSIX_FADV_SEQUENTIAL);  // more read-ahead, for mapped pages too
  int64_t data_begin = 0;
  const std::string json = read_header(data_begin);
  header_ = parse_header(json, file_->size() - data_begin, path);
  by_name_.reserve(header_.tensors.size());
  for (TensorInfo& tensor : header_.tensors) {
    tensor.offset += data_begin;
    by_name_.emplace(tensor.name, &tensor);
  }
  mapping_ = std::make_shared<const MappedFile>(*file_);
}

std::string SafetensorsFile::read_header(int64_t& data_begin) {
  constexpr int64_t kSizeBytes = 8;
  const int64_t size = file_->size();
  std::string start(static_cast<size_t>(std::min<int64_t>(size, 64)), '\0');
  read_bytes(start.data(), 0, static_cast<int64_t>(start.size()));
  if (start.starts_with(kLfsPointer))
    throw InputError("{} is a Git LFS pointer, not the weights\n  run `git lfs pull` in its folder", path().string());
  if (size < kSizeBytes)
    throw InputError(
        "{} is not a safetensors file: it has {} bytes, at least {} are needed\n  copy, download or save it again",
        path().string(), size, kSizeBytes);
  uint64_t length = 0;
  std::memcpy(&length, start.data(), kSizeBytes);
  if (length > static_cast<uint64_t>(kMaxHeaderBytes))
    throw InputError(
        "{} is not a safetensors file: its first 8 bytes say that its header has {} bytes, at most {} are allowed",
        path().string(), length, kMaxHeaderBytes);
  data_begin = kSizeBytes + static_cast<int64_t>(length);
  if (data_begin > size)
    throw InputError("{} is truncated: its header has {} bytes, the whole file {}\n  copy, download or save it again",
                     path().string(), length, size);
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
    throw InputError("{} has no tensor {}{}", path().string(), shown_name(name), did_you_mean(name, names()));
  return *info;
}

at::Tensor SafetensorsFile::tensor(const std::string& name) const {
  const TensorInfo& info = this->info(name);
  const at::ScalarType type = scalar_type(info);
  file_->check_unchanged();
  const std::string_view bytes =
      mapping_->bytes().substr(static_cast<size_t>(info.offset), static_cast<size_t>(info.bytes));
  if (reinterpret_cast<uintptr_t>(bytes.data()) % c10::elementSize(type) != 0)
    return read(name, 0, info.numel()).view(info.shape);
  check_values(info, bytes);
  return at::from_blob(
      const_cast<char*>(bytes.data()), info.shape, [mapping = mapping_](void*) {}, at::TensorOptions().dtype(type));
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
    const ssize_t done = pread(file_->descriptor(), out, static_cast<size_t>(count), offset);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) throw InputError("cannot read {}: {}", path().string(), std::strerror(errno));
    if (done == 0) file_->check_unchanged();
    out += done, offset += done, count -= done;
  }
}

at::ScalarType SafetensorsFile::scalar_type(const TensorInfo& info) const {
  if (info.dtype->type == at::ScalarType::Undefined)
    throw InputError(
        "{}: tensor {} has the dtype {}, which does not support computation\n  convert the weights to F32 or BF16",
        path().string(), shown_name(info.name), info.dtype->name);
  return info.dtype->type;
}

void SafetensorsFile::check_values(const TensorInfo& info, std::string_view bytes) const {
  if (info.dtype->type != at::ScalarType::Bool) return;  // for all other types, any bits are valid
  const auto wrong = std::find_if(bytes.begin(), bytes.end(), [](char byte) { return byte != 0 && byte != 1; });
  if (wrong != bytes.end())
    throw InputError("{}: tensor {} of dtype BOOL holds the byte {}; only 0 and 1 are allowed", path().string(),
                     shown_name(info.name), static_cast<unsigned char>(*wrong));
}

}  // namespace trainer::tensorfile
