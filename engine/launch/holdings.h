// Which checkpoints a machine holds whole.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

namespace trainer::launch {

struct Holdings {
  std::string why_not;  // it keeps no copies; "" if it does
  /// The checksum of the manifest, by the checkpoint's name: those whose files are all there, with their sizes.
  std::map<std::string, std::string> checkpoints;
  std::string newest;  // the newest of these every byte of which was verified; "": none
  int64_t epoch = 0;   // its leader epoch

  int64_t step() const;  // of the newest; -1: there is none
  /// A checkpoint of a later leader is newer: the run continued without those that it didn't know.
  bool is_newer_than(const Holdings& other) const;
};

/// The checkpoints in `output_dir`. The newest ones are read byte for byte until one is whole; `whole`, the name of one
/// that this process has verified or written before, isn't read again.
Holdings holdings_of(const std::filesystem::path& output_dir, const std::string& whole = "");

/// Lines, for a message or a pipe.
std::string to_text(const Holdings& holdings);
/// Errors: PeerError.
Holdings holdings_from(const std::string& text);

/// The checksum that distinguishes two versions of a checkpoint. Errors: InputError.
std::string manifest_digest(const std::filesystem::path& checkpoint);

}  // namespace trainer::launch
