#include "data/megatron/indexed_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "engine/base/errors.h"
#include "engine/base/files.h"

namespace trainer::data {
namespace {

namespace fs = std::filesystem;

constexpr size_t kBufferBytes = size_t{1} << 20;

template <class T>
void append(std::string& bytes, T value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

fs::path temp_of(const fs::path& path) {
  return path.parent_path() / fmt::format(".{}.{}.tmp", path.filename().string(), getpid());
}

}  // namespace

IndexedWriter::IndexedWriter(const std::string& prefix, int64_t vocabulary)
    : prefix_(prefix),
      vocabulary_(vocabulary),
      type_(token_type_for(vocabulary)),
      temp_(temp_of(prefix + ".bin")),
      file_(open(temp_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666)) {
  if (!file_) throw machine_error("write", prefix_ + ".bin", errno);
}

IndexedWriter::~IndexedWriter() {
  if (!temp_.empty()) unlink(temp_.c_str());
}

void IndexedWriter::add_document(std::span<const int32_t> tokens) {
  if (tokens.size() > INT32_MAX) {
    throw InputError("document {} has {} tokens; a document in an .idx file can have at most {}.", documents(),
                     tokens.size(), INT32_MAX);
  }
  for (int32_t token : tokens) {
    require(token >= 0 && token < vocabulary_, "token {} of a vocabulary of {}", token, vocabulary_);
    if (type_ == TokenType::kUint16) {
      append(buffer_, static_cast<uint16_t>(token));
    } else {
      append(buffer_, token);
    }
    if (buffer_.size() >= kBufferBytes) flush();
  }
  lengths_.push_back(static_cast<int32_t>(tokens.size()));
  tokens_ += static_cast<int64_t>(tokens.size());
}

void IndexedWriter::flush() {
  write_all(file_.get(), buffer_, prefix_ + ".bin");
  buffer_.clear();
}

void IndexedWriter::publish() {
  flush();
  if (close(file_.release()) != 0) throw machine_error("write", prefix_ + ".bin", errno);
  // The old index is removed first: an interruption never leaves an .idx file next to another corpus's .bin file.
  const std::string idx = prefix_ + ".idx";
  if (unlink(idx.c_str()) != 0 && errno != ENOENT) throw machine_error("replace", idx, errno);
  publish_written(temp_, prefix_ + ".bin");
  temp_.clear();
  publish_file(idx, index_bytes());
}

std::string IndexedWriter::index_bytes() const {
  std::string bytes("MMIDIDX\0\0", 9);
  append(bytes, uint64_t{1});
  append(bytes, type_);
  append(bytes, uint64_t{lengths_.size()});
  append(bytes, uint64_t{lengths_.size()} + 1);
  for (int32_t length : lengths_) append(bytes, length);
  int64_t offset = 0;
  for (int32_t length : lengths_) {
    append(bytes, offset);
    offset += length * token_bytes(type_);
  }
  for (int64_t document = 0; document <= documents(); ++document) append(bytes, document);
  return bytes;
}

}  // namespace trainer::data
