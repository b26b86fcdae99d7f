// Reads the bytes of a file as a stream, decompressing them if needed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>

namespace trainer::data {

/// An error of a whole file, such as truncated compressed data; the reader adds the position.
class BrokenBytes : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A stream of bytes.
class ByteSource {
 public:
  virtual ~ByteSource() = default;

  /// Reads up to `size` (more than 0) bytes to `to` and returns how many; 0 only at the end.
  /// Errors: BrokenBytes, InputError.
  virtual size_t read(char* to, size_t size) = 0;
};

using Bytes = std::unique_ptr<ByteSource>;

/// The bytes of the file `path`, decompressed if the content is gzip or zstd data, whatever the file's name.
/// `counter`, if given, counts the (compressed) bytes read from disk; it must outlive the source.
/// Errors: InputError when the file can't be opened, is not a regular file, or has an unsupported format.
Bytes open_bytes(const std::string& path, int64_t* counter = nullptr);

/// The bytes of `text`.
Bytes bytes_of(std::string text);

/// The decompression step of open_bytes; `path` is for messages.
Bytes unpacked(Bytes bytes, const std::string& path);

// The decompressors of unpacked(). They accept concatenated members (gzip) and frames (zstd).
Bytes unpack_gzip(Bytes packed);
Bytes unpack_zstd(Bytes packed);

}  // namespace trainer::data
