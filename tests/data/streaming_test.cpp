// Compressed files, and files that don't fit in memory.
#include <zlib.h>
#include <zstd.h>

#include <unistd.h>

#include <cstring>
#include <fstream>

#include <gtest/gtest.h>

#include "data/readers/readers.h"
#include "tests/data/support.h"

namespace trainer::data {
namespace {

using config::DataFormat;

std::string gzip(const std::string& text) {
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 6, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string packed(deflateBound(&stream, text.size()) + 32, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

std::string zstd(const std::string& text) {
  std::string packed(ZSTD_compressBound(text.size()), '\0');
  packed.resize(ZSTD_compress(packed.data(), packed.size(), text.data(), text.size(), 3));
  return packed;
}

std::vector<std::string> texts(const std::string& name, const std::string& content) {
  TempFolder folder;
  std::vector<std::string> texts;
  read_records({.path = {folder.write(name, content)}},
               [&](Record&& record) { texts.push_back(record.fields[0].second); });
  return texts;
}

TEST(Packed, IsDetectedByContent) {
  const std::vector<std::string> expected{"one", "two", "three"};
  EXPECT_EQ(texts("a.txt.gz", gzip("one\ntwo\nthree\n")), expected);
  EXPECT_EQ(texts("a.txt", gzip("one\ntwo\nthree\n")), expected);
  EXPECT_EQ(texts("a.txt.zst", zstd("one\ntwo\nthree\n")), expected);
  EXPECT_EQ(texts("a.txt", zstd("\xEF\xBB\xBFone\ntwo\nthree\n")), expected);
  EXPECT_EQ(texts("a.txt.gz", "one\ntwo\nthree\n"), expected);
}

TEST(Packed, AcceptsSeveralMembersAndFrames) {
  const std::vector<std::string> expected{"one", "two", "three"};
  EXPECT_EQ(texts("a.txt.gz", gzip("one\ntw") + gzip("") + gzip("o\nthree")), expected);
  EXPECT_EQ(texts("a.txt.gz", gzip("one\ntwo\nthree") + std::string(1000, '\0')), expected);
  const std::string to_skip("\x50\x2A\x4D\x18\x03\0\0\0abc", 11);
  EXPECT_EQ(texts("a.txt.zst", to_skip + zstd("one\ntw") + to_skip + zstd("o\nthree")), expected);
}

TEST(Packed, ReadsLongTextsCompletely) {
  std::string text, line;
  for (int i = 0; i < 200000; ++i) text += "line " + std::to_string(i * 7919) + "\n";
  for (const std::string& packed : {gzip(text), zstd(text)}) {
    std::string read;
    for (const std::string& one : texts("a.txt", packed)) read += one + "\n";
    EXPECT_TRUE(read == text);
  }
}

/// Repeats a line up to a number of bytes.
class Lines : public ByteSource {
 public:
  Lines(std::string line, int64_t bytes) : line_(std::move(line)), left_(bytes) {}

  size_t read(char* to, size_t size) override {
    size = std::min({size, line_.size() - at_, static_cast<size_t>(left_)});
    std::memcpy(to, line_.data() + at_, size);
    at_ = (at_ + size) % line_.size();
    left_ -= static_cast<int64_t>(size);
    return size;
  }

 private:
  std::string line_;
  size_t at_ = 0;
  int64_t left_;
};

/// `start`, then the bytes of `rest`.
class Joined : public ByteSource {
 public:
  Joined(std::string start, Bytes rest) : start_(bytes_of(std::move(start))), rest_(std::move(rest)) {}

  size_t read(char* to, size_t size) override {
    const size_t count = start_->read(to, size);
    return count > 0 ? count : rest_->read(to, size);
  }

 private:
  Bytes start_, rest_;
};

int64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  int64_t pages = 0, resident = 0;
  file >> pages >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

TEST(Streams, MemoryDoesNotGrow) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the sanitizer delays the reuse of freed memory";
#endif
  const std::string line = "{\"text\": \"" + std::string(480, 'x') + "\", \"n\": 12}\n";
  const int64_t count = (int64_t{64} << 20) / static_cast<int64_t>(line.size());
  for (DataFormat format : {DataFormat::kJsonl, DataFormat::kText, DataFormat::kDelimited}) {
    auto bytes = std::make_unique<Lines>(line, count * static_cast<int64_t>(line.size()));
    Reader reader = make_reader(TextInput(std::move(bytes), "f", "utf-8"), format, {.delimiter = ":"});
    const int64_t before = resident_bytes();
    int64_t records = 0;
    for (Record record; reader->next(record); record.clear()) ++records;
    EXPECT_EQ(records, count);
    EXPECT_LT(resident_bytes() - before, 8 << 20);
  }
}

/// Reads a file whose record of `bytes` bytes never ends: returns the message of the bad record and the outcome of the
/// next read.
std::pair<std::string, std::string> read_endless(DataFormat format, std::string start, int64_t bytes) {
  auto endless = std::make_unique<Lines>(std::string(64 << 10, 'x'), bytes);
  config::DataSource source;
  if (format == DataFormat::kCsv) source.columns = {"a"};
  Reader reader = make_reader(TextInput(std::make_unique<Joined>(std::move(start), std::move(endless)), "f", "utf-8"),
                              format, source);
  Record record;
  std::string first = error_of<BadRecord>([&] { reader->next(record); });
  try {
    return {first, reader->next(record) ? "a record" : "the end"};
  } catch (const InputError& error) {
    return {first, error.what()};
  }
}

TEST(Streams, SkipATooLongRecord) {
  constexpr int64_t kBytes = 40 << 20;
  auto [text, behind_text] = read_endless(DataFormat::kText, "\n", kBytes);
  contains(text, "f:2: the record is longer than 16 MiB");
  EXPECT_EQ(behind_text, "the end");
  auto [csv, behind_csv] = read_endless(DataFormat::kCsv, "\n\"\n", kBytes);
  contains(csv, "f:2: the record is longer than 16 MiB");
  contains(behind_csv, "f:2: a quoted field begins here and has no closing quote");
  auto [json, behind_json] = read_endless(DataFormat::kJson, "[\n\"", kBytes);
  contains(json, "f:2: the record is longer than 16 MiB");
  contains(behind_json, "f:2: the array has no closing ']'");
}

}  // namespace
}  // namespace trainer::data
