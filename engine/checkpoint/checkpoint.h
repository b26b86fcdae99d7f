// Saves a run so that it can be resumed exactly, and loads it under any strategy.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "engine/checkpoint/saver.h"
#include "engine/checkpoint/signature.h"

namespace trainer::checkpoint {

/// Collective. Saves the trained parameters and the optimizer state synchronously; each rank writes its own shards.
/// Errors: MachineError.
void save(const std::filesystem::path& output_dir, Manifest about, const RunState& state, const Saver::Also& also);

/// Collective. Fills parameters and optimizer state from a checkpoint of any strategy and number of ranks.
/// Errors: InputError when it is of another model (naming the first differences) or another optimizer, or any byte of
/// it is damaged, or it isn't signed as `trust` asks for.
Manifest load(const std::filesystem::path& folder, const RunState& state, const FolderAccess& access = {},
              const Trust* trust = nullptr);

struct Loaded {
  std::filesystem::path folder;
  Manifest manifest;
  std::vector<std::string> skipped;  // skipped newer ones, unfinished, damaged or not trusted, and why; one line each
};
/// Collective. load() of the newest intact checkpoint in rank 0's `output_dir`. Errors: as load(); when none is intact,
/// the damage of the newest.
Loaded load_newest(const std::filesystem::path& output_dir, const RunState& state, const FolderAccess& access = {},
                   const Trust* trust = nullptr);

}  // namespace trainer::checkpoint
