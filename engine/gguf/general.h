// What every GGUF file says of itself.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "engine/gguf/gguf_writer.h"

namespace trainer::gguf {

/// The metadata "general.*": architecture, `kind` ("model" or "adapter"), a title made of `name`.
Metadata general(const std::string& architecture, const std::string& kind, const std::string& name);
/// The value of general.size_label: "135M", with at least two digits.
std::string size_label(int64_t parameters);
/// The sampling options in `folder`/generation_config.json, as "general.sampling.*".
Metadata sampling(const std::filesystem::path& folder);

}  // namespace trainer::gguf
