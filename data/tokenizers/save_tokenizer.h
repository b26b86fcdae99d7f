// Saves a tokenizer's files with a model.
#pragma once

#include <filesystem>
#include <mutex>
#include <string>
#include <vector>

#include "data/tokenizers/tokenizer.h"

namespace trainer::data {

/// A file of a tokenizer's folder.
struct TokenizerFile {
  std::string name, content;
};

/// A tokenizer's files as they are now, whatever happens to them until they are saved.
class SavedTokenizer {
 public:
  /// Reads the files of `tokenizer`, which must outlive it. Errors: InputError, MachineError.
  SavedTokenizer(const Tokenizer& tokenizer, std::string chat_template);
  /// The files, extended so that transformers gives the same ids and texts: the tokenizer's tokenizer_json(), and
  /// `chat_template` (its own if "") in tokenizer_config.json. Made on the first call, from any thread.
  /// Errors: InputError.
  const std::vector<TokenizerFile>& files() const&;
  void files() const&& = delete;  // they would be gone at once

 private:
  std::vector<TokenizerFile> extended(std::vector<TokenizerFile> files) const;

  const Tokenizer& tokenizer_;
  const std::string chat_template_;
  mutable std::vector<TokenizerFile> files_;
  mutable std::once_flag once_;
};

/// Writes the files of a SavedTokenizer into an existing folder. Errors: InputError, MachineError.
void save_tokenizer(const Tokenizer& tokenizer, const std::string& chat_template, const std::filesystem::path& folder);

}  // namespace trainer::data
