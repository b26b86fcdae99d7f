// Hugging Face's JSON files next to a tokenizer's vocabulary.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "data/tokenizers/added_tokens.h"
#include "data/tokenizers/tokenizer.h"

namespace trainer::data {

/// The settings in `tokenizer_config.json`, `special_tokens_map.json`, `added_tokens.json`, `chat_template.jinja` and,
/// for the model type, `config.json` and `generation_config.json`.
struct TokenizerSettings {
  std::string tokenizer_class;                             // "" if missing
  int64_t extra_ids = 0;                                   // T5's sentinels: as configured, or 100 for T5
  std::string bos_token, eos_token, unk_token, pad_token;  // "" if neither configured nor a default of the type
  std::vector<std::string> other_special;                  // sep, cls, mask and additional tokens
  std::map<int32_t, AddedToken> added;                     // tokens with explicit ids
  int32_t eos_id = -1;                                     // from the model's files
  std::optional<bool> add_bos, add_eos;                    // whether they are added around a text, if configured
  bool legacy = true;                                      // each part between special tokens gets a leading space
  bool add_prefix_space = false, lowercase = true, split_ideographs = true;
  std::optional<bool> strip_accents;
  ChatTemplates chat_templates;

  /// All configured special tokens.
  std::vector<std::string> special_tokens() const;
};

/// Reads the settings from the folder of `model_file`; missing files leave the defaults, which are T5's if the files
/// name T5 or, without a type, if the model file is called spiece.model. Errors: InputError for broken files.
TokenizerSettings read_tokenizer_settings(const std::filesystem::path& model_file);

/// The tokenizer files in `folder`.
std::vector<std::filesystem::path> tokenizer_files_in(const std::filesystem::path& folder);

}  // namespace trainer::data
