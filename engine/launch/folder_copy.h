// What a machine offers to copy to another one.
//
// Note [Replicas]
// On machines that share no folder, only the leader has the checkpoints (Note [Without a shared folder] in
// engine/checkpoint/folder_access.h). With checkpoint.replicas: N, the launchers of N - 1 followers keep copies of them
// in their own output folders, which they lock. The copies are ordinary checkpoints.
//   While the run trains, the leader's launcher (Replicator) offers each keeper the run's metrics and the checkpoints
//   that it lacks, the newest first; at the end of the run also the final model. The keeper (ReplicaKeeper) answers
//   which files it lacks: those that it has in another version of that checkpoint, it links. Files follow in parts over
//   the sealed connection, encrypted if the run has a secret; at most kCopyWindow bytes are unconfirmed. Reading,
//   writing and checksums take place in threads, one step at a time, so neither a launcher nor a rank waits for a disk.
//   A copy is verified against the manifest, and published by a rename: it is there as a whole or not at all. Both ends
//   remove old checkpoints by the same rule, save_total_limit. Before the ranks of an attempt start (restore_newest()),
//   every machine says which checkpoints it holds whole. If another machine's newest is newer than the leader's, the
//   leader fetches it in the same way, and its epoch becomes higher than that checkpoint's (Note [Leader epochs]). So a
//   leader whose disk was lost resumes from the newest copy.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "engine/base/link_protocol.h"
#include "engine/checkpoint/contents.h"

namespace trainer::launch {

/// The code of the kCopyEnd of a copy whose bytes aren't those that were offered: the run has written the file again
/// since, or it is damaged. With other codes, the receiver can't take copies.
inline constexpr int kOtherBytes = 1000;

/// The bytes of a file that are sent at a time, and those that may be on their way.
inline constexpr int64_t kCopyPart = int64_t{1} << 20, kCopyWindow = 4 * kCopyPart;

struct CopyOffer {
  std::string checkpoint;  // "checkpoint-40"; "": files of the run itself, directly in output_dir
  std::vector<checkpoint::StoredFile> files;

  int64_t bytes() const;
};

bool is_weights(const checkpoint::StoredFile& file);

LinkMessage to_message(const CopyOffer& offer);
/// Errors: PeerError when the message isn't an offer, or names a file outside the folder.
CopyOffer read_offer(const LinkMessage& message);

/// The step of "checkpoint-40"; -1 for anything else.
int64_t step_of_checkpoint(const std::string& name);

/// The files of output_dir/`name`. Those that the manifest lists aren't read. Errors: InputError when there is no such
/// checkpoint any more, or it is damaged.
CopyOffer offer_of_checkpoint(const std::filesystem::path& output_dir, const std::string& name);

/// The files of a run directly in `output_dir`, as they are now: all, or only what a resumed run continues, its
/// metrics. Reads them. Errors: InputError.
CopyOffer offer_of_run(const std::filesystem::path& output_dir, bool all);

/// The checksum of the first `bytes` bytes of a file. Errors: InputError when it is shorter or can't be read.
std::string digest_of_start(const std::filesystem::path& path, int64_t bytes);

}  // namespace trainer::launch
