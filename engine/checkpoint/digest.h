// Checksums of files.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

namespace trainer::checkpoint {

/// The checksum of the bytes added to it: "xxh3:" (XXH3, 128 bits) or "sha256:", then hexadecimal digits.
class Digest {
 public:
  /// `kind`: xxh3 or sha256. Errors: InputError for another.
  explicit Digest(std::string_view kind);
  ~Digest();
  void add(std::string_view bytes);
  /// The checksum of all bytes added; nothing can be added afterwards.
  std::string text();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// "xxh3" of "xxh3:…".
std::string_view kind_of(std::string_view digest);
std::string digest_of(std::string_view kind, std::string_view bytes);
/// Reads the whole file. Errors: InputError when that fails.
std::string digest_of_file(std::string_view kind, const std::filesystem::path& path);

}  // namespace trainer::checkpoint
