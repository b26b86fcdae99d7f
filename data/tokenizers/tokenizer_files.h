// The JSON files beside a tokenizer's vocabulary, as Hugging Face writes them.
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

/// What `tokenizer_config.json`, `special_tokens_map.json`, `added_tokens.json`, `chat_template.jinja` and, for the
/// kind of model, `config.json` and `generation_config.json` say.
struct TokenizerSettings {
  std::string tokenizer_class;                             // "" when it is not said
  int64_t extra_ids = 0;                                   // T5's sentinels: configured, or 100 for a T5
  std::string bos_token, eos_token, unk_token, pad_token;  // "" when neither configured nor the kind's
  std::vector<std::string> other_special;                  // sep, cls, mask and the additional ones
  std::map<int32_t, AddedToken> added;                     // tokens with explicit ids
  int32_t eos_id = -1;                                     // as the model's files say
  std::optional<bool> add_bos, add_eos;                    // whether they are put around a text, when it is said
  bool legacy = true;  // a space is put in front of each part between special tokens
  bool add_prefix_space = false, lowercase = true, split_ideographs = true;
  std::optional<bool> strip_accents;
  ChatTemplates chat_templates;

  /// All configured special tokens.
  std::vector<std::string> special_tokens() const;
};

/// Reads them from the folder of `model_file`; missing files leave the defaults, which are T5's when the files say T5
/// or, saying nothing, when the model has T5's file name spiece.model. Errors: InputError for broken files.
TokenizerSettings read_tokenizer_settings(const std::filesystem::path& model_file);

/// The names of tokenizer files that are in `folder`.
std::vector<std::filesystem::path> tokenizer_files_in(const std::filesystem::path& folder);

}  // namespace trainer::data
