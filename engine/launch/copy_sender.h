// Sends the files of a checkpoint to another machine: Note [Replicas].
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <future>
#include <string>
#include <vector>

#include "engine/base/file_descriptor.h"
#include "engine/launch/folder_copy.h"
#include "engine/launch/machine_line.h"

namespace trainer::launch {

/// One copy. Nothing blocks: what reads files runs in a thread, and serve() is to be called again soon while the copy
/// hasn't ended.
class CopySender {
 public:
  /// `list` finds out what to offer of `folder`, in a thread; it may throw InputError.
  CopySender(std::filesystem::path folder, std::function<CopyOffer()> list);

  /// The receiver's answers: kCopyWant, kCopyTook, kCopyEnd. Errors: PeerError.
  void take(const LinkMessage& message);
  void serve(MachineLine& line);

  bool has_ended() const { return phase_ == Phase::kEnded; }
  /// Why no copy was made; "" if one was.
  const std::string& why() const { return why_; }
  /// The receiver couldn't take it, or was lost; otherwise the files have changed here.
  bool receiver_failed() const { return receiver_failed_; }
  /// Once listed.
  const CopyOffer& offer() const { return offer_; }

 private:
  enum class Phase { kListing, kOffered, kSending, kSent, kEnded };
  struct Part {
    std::size_t file;
    std::string bytes;
  };

  void end(const std::string& why, bool receiver_failed);
  void read_next();
  Part read_part(std::size_t file);
  void send_parts(MachineLine& line);

  const std::filesystem::path folder_;
  Phase phase_ = Phase::kListing;
  std::future<CopyOffer> list_;
  CopyOffer offer_;
  std::vector<std::size_t> wanted_;  // files, in reverse order: the next one is the last
  FileDescriptor file_;              // the next one; used by the thread while a part is being read
  int64_t read_ = 0;                 // bytes of it
  int64_t sent_ = 0, took_ = 0;      // bytes of all files
  std::string why_;
  bool receiver_failed_ = false;
  std::future<Part> part_;  // last: its thread uses the members above
};

}  // namespace trainer::launch
