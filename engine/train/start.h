// Where a run starts.
#pragma once

#include <optional>

#include "engine/checkpoint/folder_access.h"
#include "engine/checkpoint/signature.h"
#include "engine/config/sections.h"
#include "engine/dist/comm.h"

namespace trainer::train {

/// From scratch, from the newest checkpoint of its output folder, or from a named one.
enum class Start { kFromScratch, kNewest, kNamed };

/// The configured start. Errors: ConfigError, InputError when the contents of output_dir forbid it.
Start start_of(const config::Config& config);
/// Collective. The start that rank 0, which sees the checkpoints, determines. Errors: those of start_of().
Start agreed_start(const config::Config& config, dist::Comm& comm);
/// What a run that begins so trusts, if checkpoint.trusted_key is set and this rank sees the checkpoints. Errors:
/// ConfigError.
std::optional<checkpoint::Trust> trust_of(const config::Config& config, Start start,
                                          const checkpoint::FolderAccess& access);

}  // namespace trainer::train
