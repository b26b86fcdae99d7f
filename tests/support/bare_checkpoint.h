// A checkpoint for tests that only look which checkpoints there are.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>

#include "engine/checkpoint/checkpoint_folder.h"

namespace trainer::testing {

/// Makes `output_dir`/checkpoint-`step`, whose manifest is empty.
inline void leave_bare_checkpoint(const std::filesystem::path& output_dir, int64_t step) {
  const std::filesystem::path folder = output_dir / ("checkpoint-" + std::to_string(step));
  std::filesystem::create_directories(folder);
  std::ofstream(folder / checkpoint::kManifestFile) << "{}";
}

}  // namespace trainer::testing
