#include "data/readers/byte_source.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "engine/base/errors.h"
#include "engine/base/file_descriptor.h"

namespace trainer::data {
namespace {

using namespace std::string_view_literals;

class FileBytes : public ByteSource {
 public:
  explicit FileBytes(std::string path) : path_(std::move(path)) {
    file_ = FileDescriptor(open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));  // must not block on a pipe
    if (!file_) fail();
    struct stat about {};
    if (fstat(file_.get(), &about) != 0) fail();
    if (!S_ISREG(about.st_mode)) throw InputError("{}: not a regular file.", path_);
    posix_fadvise(file_.get(), 0, 0, POSIX_FADV_SEQUENTIAL);
  }

  size_t read(char* to, size_t size) override {
    for (;;) {
      ssize_t count = ::read(file_.get(), to, size);
      if (count >= 0) return static_cast<size_t>(count);
      if (errno != EINTR) fail();
    }
  }

 private:
  [[noreturn]] void fail() const { throw InputError("{}: cannot read the file: {}.", path_, std::strerror(errno)); }

  std::string path_;
  FileDescriptor file_;
};

/// A prefix, followed by the bytes of another source.
class TextBytes : public ByteSource {
 public:
  explicit TextBytes(std::string text, Bytes rest = nullptr) : text_(std::move(text)), rest_(std::move(rest)) {}

  size_t read(char* to, size_t size) override {
    if (at_ == text_.size()) return rest_ ? rest_->read(to, size) : 0;
    size = std::min(size, text_.size() - at_);
    std::memcpy(to, text_.data() + at_, size);
    at_ += size;
    return size;
  }

 private:
  std::string text_;
  size_t at_ = 0;
  Bytes rest_;
};

/// Counts the bytes of `inner`. The count must outlive it.
class CountedBytes : public ByteSource {
 public:
  CountedBytes(Bytes inner, int64_t* count) : inner_(std::move(inner)), count_(count) {}
  size_t read(char* to, size_t size) override {
    const size_t got = inner_->read(to, size);
    *count_ += static_cast<int64_t>(got);
    return got;
  }

 private:
  Bytes inner_;
  int64_t* count_;
};

/// The content of compressed data, unless it is far longer than text can become by decompression: it would fill the
/// disk with samples.
class BoundedBytes : public ByteSource {
 public:
  /// `unpack`: the decompressor.
  BoundedBytes(Bytes packed, Bytes (*unpack)(Bytes))
      : content_(unpack(std::make_unique<CountedBytes>(std::move(packed), &packed_))) {}
  BoundedBytes(const BoundedBytes&) = delete;

  size_t read(char* to, size_t size) override {
    const size_t got = content_->read(to, size);
    unpacked_ += static_cast<int64_t>(got);
    if (unpacked_ > kFree && unpacked_ > kMostTimes * packed_)
      throw BrokenBytes(
          fmt::format("{} compressed bytes unpack to more than {}, over {} times as many, which no text does", packed_,
                      unpacked_, kMostTimes));
    return got;
  }

 private:
  static constexpr int64_t kFree = 1 << 30, kMostTimes = 300;

  int64_t packed_ = 0, unpacked_ = 0;  // bytes so far
  Bytes content_;
};

/// The first bytes: enough to recognize the kind of file.
std::string read_head(ByteSource& bytes) {
  std::string head(8, '\0');
  size_t length = 0;
  while (length < head.size()) {
    size_t count = bytes.read(head.data() + length, head.size() - length);
    if (count == 0) break;
    length += count;
  }
  head.resize(length);
  return head;
}

bool is_zstd(std::string_view head) {
  if (head.starts_with("\x28\xB5\x2F\xFD")) return true;
  return head.size() >= 4 && (head[0] & 0xF0) == 0x50 && head.substr(1, 3) == "\x2A\x4D\x18";  // a skippable frame
}

void refuse_others(std::string_view head, const std::string& path) {
  // PAR1 alone may be a column name
  if (head.starts_with("PAR1\x15") || head.starts_with("ARROW1\0\0"sv))
    throw InputError(
        "{}: the file is a {} file, whatever its name.\nSet `format: parquet`, which reads both Parquet and "
        "Arrow files.",
        path, head.starts_with("PAR1") ? "Parquet" : "Arrow");
  struct Kind {
    std::string_view head, name, how;
  };
  static constexpr Kind kKinds[] = {
      {"\xFF\xFE\0\0"sv, "UTF-32 text", "Convert it with `iconv -f UTF-32LE -t UTF-8`"},
      {"\0\0\xFE\xFF"sv, "UTF-32 text", "Convert it with `iconv -f UTF-32BE -t UTF-8`"},
      {"\xFF\xFE", "UTF-16 text (little-endian)", "Convert it with `iconv -f UTF-16 -t UTF-8`"},
      {"\xFE\xFF", "UTF-16 text (big-endian)", "Convert it with `iconv -f UTF-16 -t UTF-8`"},
      {"PK\3\4", "a zip archive", "Unpack it with `unzip`"},
      {"BZh91AY&", "compressed with bzip2", "Decompress it with `bunzip2`, or compress it with gzip or zstd"},
      {"\xFD"
       "7zXZ",
       "compressed with xz", "Decompress it with `unxz`, or compress it with gzip or zstd"},
      {"\x04\x22\x4D\x18", "compressed with lz4", "Decompress it with `unlz4`, or compress it with gzip or zstd"},
      {"7z\xBC\xAF", "a 7z archive", "Unpack it with `7z x`"},
  };
  for (const Kind& kind : kKinds) {
    if (head.starts_with(kind.head)) {
      throw InputError("{}: the file is {}, which is not supported.\n{}.", path, kind.name, kind.how);
    }
  }
}

}  // namespace

Bytes bytes_of(std::string text) {
  return std::make_unique<TextBytes>(std::move(text));
}

Bytes unpacked(Bytes bytes, const std::string& path) {
  std::string head = read_head(*bytes);
  bool gzip = head.starts_with("\x1F\x8B"), zstd = is_zstd(head);
  if (gzip || zstd) {
    bytes = std::make_unique<BoundedBytes>(std::make_unique<TextBytes>(std::move(head), std::move(bytes)),
                                           gzip ? unpack_gzip : unpack_zstd);
    try {
      head = read_head(*bytes);
    } catch (const BrokenBytes& error) {
      throw InputError("{}:1: {}.", path, error.what());
    }
  }
  refuse_others(head, path);
  return std::make_unique<TextBytes>(std::move(head), std::move(bytes));
}

Bytes open_bytes(const std::string& path, int64_t* counter) {
  Bytes bytes = std::make_unique<FileBytes>(path);
  if (counter != nullptr) bytes = std::make_unique<CountedBytes>(std::move(bytes), counter);
  return unpacked(std::move(bytes), path);
}

}  // namespace trainer::data
