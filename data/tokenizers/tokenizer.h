// Converts text to token ids and back.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/config/sections/model.h"

namespace trainer::data {

/// Tokens and the bytes of the text they represent; a token added by a post-processor represents none (begin == end).
struct TokenOffsets {
  std::vector<int32_t> ids;
  std::vector<size_t> begins, ends;
};

/// Jinja sources by name; "default" is the unnamed one.
using ChatTemplates = std::map<std::string, std::string, std::less<>>;

/// Turns text into token ids as the model's own tokenizer does. Safe to use from several threads.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  /// The ids of `text`, with the tokenizer's special tokens around the text if `add_special`: T5's `</s>` after it,
  /// LLaMA's `<s>` before it, BERT's `[CLS]` and `[SEP]`, none for GPT-2. Invalid UTF-8 in `text` is read as U+FFFD.
  virtual std::vector<int32_t> encode(std::string_view text, bool add_special = true) const = 0;

  /// The same with offsets into `text`, or, if that is invalid UTF-8, into the text with U+FFFD.
  virtual TokenOffsets encode_with_offsets(std::string_view text, bool add_special = true) const;

  /// The text of `ids`. Ids outside the vocabulary are skipped; so are pad, eos, unk and all added special tokens if
  /// `skip_special`.
  virtual std::string decode(std::span<const int32_t> ids, bool skip_special = true) const = 0;

  /// One more than the largest id that `encode` can return.
  virtual int64_t size() const = 0;

  /// The id of a piece or special token; nothing when there is no such piece.
  virtual std::optional<int32_t> id_of(std::string_view piece) const = 0;

  /// The piece or special token of an id. Errors: InternalError when the id is not in [0, size).
  virtual std::string piece_of(int32_t id) const = 0;

  virtual int32_t pad_id() const = 0;            ///< -1 when the tokenizer has none
  virtual int32_t bos_id() const { return -1; }  ///< likewise
  virtual int32_t eos_id() const = 0;
  virtual int32_t unk_id() const = 0;

  /// The chat templates (Jinja) that came with the tokenizer, by name.
  virtual const ChatTemplates& chat_templates() const;
  /// The chat template called `name`; null when there is none.
  const std::string* chat_template(std::string_view name = "default") const;

  /// The files that make up this tokenizer.
  virtual const std::vector<std::filesystem::path>& files() const = 0;

  /// A tokenizer.json for programs that would read `files()` differently; "" when they don't, or when no tokenizer.json
  /// gives the same ids, which is logged as a warning.
  virtual std::string tokenizer_json() const { return ""; }
};

/// Opens the tokenizer in `config.path`, or in `model_path` when that is empty.
/// In a folder, tokenizer.json takes precedence, then spiece.model or tokenizer.model, then vocab.json or vocab.txt.
/// Errors: InputError that names the folder, its content and what to do; InputError for a broken file.
std::unique_ptr<Tokenizer> open_tokenizer(const config::TokenizerConfig& config, const std::string& model_path);

/// The number of special tokens that the tokenizer appends to a text.
size_t trailing_special_tokens(const Tokenizer& tokenizer);

/// Checks that every id of the tokenizer has a row in an embedding of `vocab_size` rows.
/// Errors: InputError with both sizes.
void check_fits(const Tokenizer& tokenizer, int64_t vocab_size);

}  // namespace trainer::data
