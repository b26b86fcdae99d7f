// Receives the files of a checkpoint from another machine: Note [Replicas].
#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/byte_sink.h"
#include "engine/checkpoint/checkpoint_folder.h"
#include "engine/checkpoint/digest.h"
#include "engine/launch/folder_copy.h"
#include "engine/launch/machine_line.h"

namespace trainer::launch {

/// The copies that are made in an output folder, one at a time. What writes and verifies runs in a thread; serve() is
/// to be called again soon while the receiver is busy.
class CopyReceiver {
 public:
  /// This process has locked `output_dir`. `keep`: which checkpoints stay when a copy is complete; null: all. A folder
  /// whose newest checkpoint is of a higher epoch than `leader_epoch` takes no copies from that leader.
  CopyReceiver(std::filesystem::path output_dir, std::optional<checkpoint::Keep> keep, int64_t leader_epoch);
  ~CopyReceiver();

  /// kCopyOffer or kCopyPart.
  void take(LinkMessage message) { inbox_.push_back(std::move(message)); }
  void serve(MachineLine& line);

  bool is_busy() const { return work_.valid() || !inbox_.empty(); }
  /// How the last copy has ended, once: "" when it is published, else why not.
  std::optional<std::string> take_end() { return std::exchange(end_, std::nullopt); }
  /// The newest checkpoint of which a copy was published; "": none yet.
  const std::string& newest() const { return newest_; }

 private:
  using Answers = std::vector<LinkMessage>;

  void note_copy();
  Answers handle(LinkMessage message);
  Answers begin(const LinkMessage& message);
  Answers write(const LinkMessage& message);
  std::vector<checkpoint::StoredFile> files_here() const;
  bool has_linked(const checkpoint::StoredFile& offered, const std::vector<checkpoint::StoredFile>& mine) const;
  void open_next();
  void check_complete() const;
  void publish();
  void publish_files() const;
  void drop();
  std::filesystem::path final_folder() const { return output_dir_ / offer_.checkpoint; }

  const std::filesystem::path output_dir_;
  const std::optional<checkpoint::Keep> keep_;
  const int64_t leader_epoch_;
  std::deque<LinkMessage> inbox_;
  std::optional<std::string> end_;
  std::string newest_;

  // Used by the thread while it works.
  bool receiving_ = false;
  CopyOffer offer_;
  std::filesystem::path partial_;
  std::deque<std::size_t> wanted_;  // files; the first one is being written
  std::unique_ptr<FileSink> sink_;
  std::unique_ptr<checkpoint::Digest> digest_;
  int64_t written_ = 0, taken_ = 0;  // bytes of this file, and of all

  std::future<Answers> work_;  // last: its thread uses the members above
};

}  // namespace trainer::launch
