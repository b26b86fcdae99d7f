// Compares leader epochs where checkpoints are published: Note [Leader epochs] in engine/base/folder_lock.h.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "engine/base/folder_lock.h"

namespace trainer::checkpoint {

/// The leader epoch under which the newest checkpoint in `output_dir` was saved; 0: there is none, or an earlier
/// version wrote it. Checkpoints whose manifest is damaged are passed over.
int64_t newest_epoch(const std::filesystem::path& output_dir);

/// Why `owner` must not change its folder any more: another process has taken the lock, or a leader of a higher epoch
/// has published a checkpoint. "" if neither is known.
std::string superseded(const FolderOwner& owner);

/// FolderOwner::require(), and the newest checkpoint isn't of a higher epoch. Errors: PeerError; MachineError.
void require_leads(const FolderOwner& owner);

}  // namespace trainer::checkpoint
