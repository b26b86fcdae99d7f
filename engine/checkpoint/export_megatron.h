#pragma once

#include <filesystem>

#include "engine/weights/megatron_layout.h"

namespace trainer::checkpoint {

/// write_megatron() of the model in `source` (open_whole_weights()). Errors: those of both.
void export_megatron(const std::filesystem::path& source, const std::filesystem::path& output,
                     const MegatronDegrees& degrees);

}  // namespace trainer::checkpoint
