#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

namespace trainer::gguf {

/// llama.cpp's name ("gpt-2", "llama-bpe", …) for how the tokenizer `root`, the tokenizer.json of `file`, cuts a text
/// into words before byte-level BPE. It is recognized by its rules, so it is found for any vocabulary. Errors:
/// ConfigError when llama.cpp has no such rules.
std::string pre_tokenizer_name(const nlohmann::json& root, const std::string& file);

}  // namespace trainer::gguf
