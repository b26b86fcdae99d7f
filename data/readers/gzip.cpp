#include <zlib.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "data/readers/byte_source.h"
#include "engine/base/errors.h"

namespace trainer::data {
namespace {

class GzipBytes : public ByteSource {
 public:
  explicit GzipBytes(Bytes packed) : packed_(std::move(packed)), input_(64 << 10) {
    constexpr int kGzipOnly = 16;
    if (inflateInit2(&stream_, MAX_WBITS + kGzipOnly) != Z_OK)
      throw MachineError("not enough memory to decompress gzip data.");
  }
  ~GzipBytes() override { inflateEnd(&stream_); }
  GzipBytes(const GzipBytes&) = delete;

  size_t read(char* to, size_t size) override {
    size = std::min(size, size_t{1} << 30);  // zlib counts in 32 bits
    stream_.next_out = reinterpret_cast<Bytef*>(to);
    stream_.avail_out = static_cast<uInt>(size);
    while (stream_.avail_out == size) {
      if (!damage_.empty()) throw BrokenBytes(damage_);
      if (stream_.avail_in == 0 && !refill()) {
        if (within_member_) throw BrokenBytes("the gzip data end too early: the file is truncated");
        return 0;
      }
      if (!within_member_ && !begin_member()) continue;
      unpack_some();
    }
    return size - stream_.avail_out;
  }

 private:
  bool refill() {
    stream_.next_in = reinterpret_cast<Bytef*>(input_.data());
    stream_.avail_in = static_cast<uInt>(packed_->read(input_.data(), input_.size()));
    return stream_.avail_in > 0;
  }

  /// False when only zero padding follows the last member.
  bool begin_member() {
    for (; members_ > 0 && stream_.avail_in > 0 && *stream_.next_in == 0; ++stream_.next_in) {
      --stream_.avail_in;
      padded_ = true;
    }
    if (stream_.avail_in == 0) return false;
    if (members_ > 0 && (padded_ || *stream_.next_in != 0x1F)) fail_behind();
    inflateReset(&stream_);
    within_member_ = true;
    ++members_;
    return true;
  }

  void unpack_some() {
    int status = inflate(&stream_, Z_NO_FLUSH);
    if (status == Z_STREAM_END) {
      within_member_ = false;
    } else if (status == Z_MEM_ERROR) {
      throw MachineError("not enough memory to decompress gzip data.");
    } else if (status != Z_OK && status != Z_BUF_ERROR) {  // Z_BUF_ERROR: more input is needed
      set_damage(stream_.msg ? stream_.msg : "a preset dictionary is required");
    }
  }

  /// Data before the damage is returned first.
  void set_damage(std::string why) {
    if (why == "incorrect header check" && members_ > 1) fail_behind();
    if (why == "incorrect data check") why = "the checksum (CRC) does not match";
    if (why == "incorrect length check") why = "the length does not match";
    damage_ = "the gzip data are corrupt: " + why;
  }

  [[noreturn]] static void fail_behind() {
    throw BrokenBytes("data that is not gzip follows the end of the gzip data");
  }

  Bytes packed_;
  std::vector<char> input_;
  z_stream stream_{};
  std::string damage_;
  int64_t members_ = 0;
  bool within_member_ = false, padded_ = false;
};

}  // namespace

Bytes unpack_gzip(Bytes packed) {
  return std::make_unique<GzipBytes>(std::move(packed));
}

}  // namespace trainer::data
