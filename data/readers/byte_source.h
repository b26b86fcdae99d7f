// The bytes of a file, read piece by piece, unpacked where they are packed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>

namespace trainer::data {

/// What is wrong with a file as a whole, like packed bytes that end early; who reads it knows where that is.
class BrokenBytes : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Bytes that come one portion after the other.
class ByteSource {
 public:
  virtual ~ByteSource() = default;

  /// Reads up to `size` (more than 0) bytes to `to` and returns how many; 0 only at the end.
  /// Errors: BrokenBytes, InputError.
  virtual size_t read(char* to, size_t size) = 0;
};

using Bytes = std::unique_ptr<ByteSource>;

/// The bytes of the file `path`, unpacked when they begin as gzip or zstd data do, whatever its name.
/// `counter`, if given, grows by the bytes taken from the disk, packed as they are there; it must outlive the source.
/// Errors: InputError when it can't be opened, is no file with bytes, or begins as a file that can't be read.
Bytes open_bytes(const std::string& path, int64_t* counter = nullptr);

/// The bytes of `text`.
Bytes bytes_of(std::string text);

/// Says how a Parquet file becomes one that can be read. Errors: always an InputError.
[[noreturn]] void refuse_parquet(const std::string& path);

/// What open_bytes does with the content of a file; `path` is for messages.
Bytes unpacked(Bytes bytes, const std::string& path);

// What unpacked() chooses from. Members (gzip) and frames (zstd) may follow each other.
Bytes unpack_gzip(Bytes packed);
Bytes unpack_zstd(Bytes packed);

}  // namespace trainer::data
