// The JSON files beside a SentencePiece model, as Hugging Face writes them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "data/special_tokens.h"

namespace trainer::data {

/// What `tokenizer_config.json` (and `config.json` for the kind of model) say.
struct TokenizerSettings {
  int64_t extra_ids = 0;                        // T5's sentinels: configured, or 100 for a T5
  std::string eos_token, unk_token, pad_token;  // "" when neither configured nor T5's
  std::map<std::string, SpecialToken> added;    // special tokens with explicit ids
};

/// Reads them from the folder of `model_file`; missing files leave the defaults, which are T5's when the files say T5
/// or, saying nothing, when the model has T5's file name spiece.model. Errors: InputError for broken files.
TokenizerSettings read_tokenizer_settings(const std::filesystem::path& model_file);

/// The names of tokenizer files that are in `folder`.
std::vector<std::filesystem::path> tokenizer_files_in(const std::filesystem::path& folder);

}  // namespace trainer::data
