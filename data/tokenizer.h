// Text to token ids and back.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/config/sections.h"

namespace trainer::data {

/// Turns text into token ids as the model's own tokenizer does. Safe to use from several threads.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  /// The ids of `text` (UTF-8), followed by the end-of-sequence id when `add_eos`.
  virtual std::vector<int32_t> encode(std::string_view text, bool add_eos = true) const = 0;

  /// The text of `ids`. Ids outside the vocabulary have none and are left out; so are pad, eos, unk and all added
  /// special tokens when `skip_special`.
  virtual std::string decode(std::span<const int32_t> ids, bool skip_special = true) const = 0;

  /// One more than the largest id that `encode` can give.
  virtual int64_t size() const = 0;

  /// The id of a piece or special token; nothing when there is none of that name.
  virtual std::optional<int32_t> id_of(std::string_view piece) const = 0;

  /// The piece or special token of an id. Errors: InternalError when the id is not in [0, size).
  virtual std::string piece_of(int32_t id) const = 0;

  virtual int32_t pad_id() const = 0;  ///< -1 when the tokenizer has none
  virtual int32_t eos_id() const = 0;
  virtual int32_t unk_id() const = 0;

  /// The files that make up this tokenizer, to be copied into a saved model's folder.
  virtual const std::vector<std::filesystem::path>& files() const = 0;
};

/// The tokenizer in `config.path`, or in `model_path` when that is empty.
/// Errors: InputError that names the folder, what is in it and what to do; InputError for a broken model file.
std::unique_ptr<Tokenizer> open_tokenizer(const config::TokenizerConfig& config, const std::string& model_path);

/// Checks that every id of the tokenizer has a row in an embedding of `vocab_size` rows.
/// Errors: InputError with both sizes.
void check_fits(const Tokenizer& tokenizer, int64_t vocab_size);

/// Copies the tokenizer's files into a folder that exists. Errors: MachineError.
void copy_files(const Tokenizer& tokenizer, const std::filesystem::path& folder);

}  // namespace trainer::data
