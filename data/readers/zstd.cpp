#include <zstd.h>
#include <zstd_errors.h>

#include <vector>

#include "data/readers/byte_source.h"
#include "engine/base/errors.h"

namespace trainer::data {
namespace {

class ZstdBytes : public ByteSource {
 public:
  explicit ZstdBytes(Bytes packed)
      : packed_(std::move(packed)), stream_(ZSTD_createDStream(), ZSTD_freeDStream), input_(ZSTD_DStreamInSize()) {
    if (!stream_) throw MachineError("not enough memory to decompress zstd data.");
  }

  size_t read(char* to, size_t size) override {
    ZSTD_outBuffer output{to, size, 0};
    while (output.pos == 0) {
      // Output buffered in the library needs no further input.
      if (held_.pos == held_.size && !holds_output_ && !refill()) {
        if (within_frame_) throw BrokenBytes("the zstd data end too early: the file is truncated");
        return 0;
      }
      size_t left = ZSTD_decompressStream(stream_.get(), &output, &held_);
      if (ZSTD_isError(left)) fail(left);
      within_frame_ = left != 0;
      frames_ += left == 0;
      holds_output_ = within_frame_ && output.pos == output.size;
    }
    return output.pos;
  }

 private:
  bool refill() {
    held_ = {input_.data(), packed_->read(input_.data(), input_.size()), 0};
    return held_.size > 0;
  }

  [[noreturn]] void fail(size_t code) const {
    switch (ZSTD_getErrorCode(code)) {
      case ZSTD_error_memory_allocation:
        throw MachineError("not enough memory to decompress zstd data.");
      case ZSTD_error_prefix_unknown:
        if (frames_ > 0) throw BrokenBytes("data that is not zstd follows the end of the zstd data");
        break;
      case ZSTD_error_checksum_wrong:
        throw BrokenBytes("the zstd data are corrupt: the checksum does not match");
      case ZSTD_error_frameParameter_windowTooLarge:
        throw BrokenBytes("the zstd data need more than 128 MiB to decompress; compress them again without --long");
      default:
        break;
    }
    throw BrokenBytes(std::string("the zstd data are corrupt: ") + ZSTD_getErrorName(code));
  }

  Bytes packed_;
  std::unique_ptr<ZSTD_DStream, size_t (*)(ZSTD_DStream*)> stream_;
  std::vector<char> input_;
  ZSTD_inBuffer held_{nullptr, 0, 0};
  bool within_frame_ = false, holds_output_ = false;
  int64_t frames_ = 0;
};

}  // namespace

Bytes unpack_zstd(Bytes packed) {
  return std::make_unique<ZstdBytes>(std::move(packed));
}

}  // namespace trainer::data
