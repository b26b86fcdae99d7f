// Saves a tokenizer's files with a model.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "data/tokenizers/tokenizer.h"

namespace trainer::data {

/// A file of a tokenizer's folder.
struct TokenizerFile {
  std::string name, content;
};

/// The tokenizer's files, extended so that transformers gives the same ids and texts: its tokenizer_json(), and
/// `chat_template` (the tokenizer's own if "") in tokenizer_config.json. Errors: InputError, MachineError.
std::vector<TokenizerFile> files_for_readers(const Tokenizer& tokenizer, const std::string& chat_template);

/// Writes these files into an existing folder. Errors: as above.
void save_tokenizer(const Tokenizer& tokenizer, const std::string& chat_template, const std::filesystem::path& folder);

}  // namespace trainer::data
