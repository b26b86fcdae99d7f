// Reads, tokenizes and stores all records of a source, in parallel.
#pragma once

#include <filesystem>

#include "data/cache/prepare.h"

namespace trainer::data {

/// Writes the token cache of `request` into the folder `folder`. Memory does not grow with the files.
/// Errors: InputError with file and line; MachineError.
void make_store(const PrepareRequest& request, const Tokenizer& tokenizer, const std::filesystem::path& folder);

}  // namespace trainer::data
