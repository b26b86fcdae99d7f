// Saving a run so that it goes on as if it had never stopped, and loading it again under any strategy.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "engine/checkpoint/saver.h"

namespace trainer::checkpoint {

/// Collective. Saves at once, by a Saver of its own: the trained parameters and the optimiser state, each rank its own
/// pieces. Errors: MachineError.
void save(const std::filesystem::path& output_dir, Manifest about, const RunState& state, const Saver::Also& also);

/// Collective. Fills parameters and optimiser state from a checkpoint of any strategy and number of ranks.
/// Errors: InputError when it is of another model (first differences named), of another optimiser, or any byte of it is
/// not as it was written.
Manifest load(const std::filesystem::path& folder, const RunState& state, const FolderAccess& access = {});

struct Loaded {
  std::filesystem::path folder;
  Manifest manifest;
  std::vector<std::string> passed_over;  // newer ones, unfinished or damaged, and why; one line each
};
/// Collective. load() of the newest checkpoint in rank 0's `output_dir` that is whole. Errors: as load(); when none is
/// whole, what is wrong with the newest.
Loaded load_newest(const std::filesystem::path& output_dir, const RunState& state, const FolderAccess& access = {});

}  // namespace trainer::checkpoint
