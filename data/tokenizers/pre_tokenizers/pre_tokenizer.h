// `pre_tokenizer` of tokenizer.json: splits a text into pieces for the model.
#pragma once

#include <memory>

#include "data/tokenizers/json_view.h"
#include "data/tokenizers/text/pieces.h"

namespace trainer::data {

/// Splits pieces into smaller ones, and may change their text. Immutable: safe to use from several threads.
class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  virtual void apply(Pieces& pieces) const = 0;
  /// Whether it needs the origins of pieces; `changed`: an earlier stage changed the text, which then must be aligned.
  virtual bool needs_origins(bool changed) const { return false; }
  /// Offers the last stage to leave the spelling of bytes to the model (TokenModel::encode_bytes).
  /// @returns whether it does so from now on.
  virtual bool leave_bytes() { return false; }
};

/// Makes the pre-tokenizer that `view` describes, null for null; problems are recorded in `view`.
std::unique_ptr<PreTokenizer> read_pre_tokenizer(const JsonView& view);

// One function per type.
std::unique_ptr<PreTokenizer> read_byte_level(const JsonView& view);
std::unique_ptr<PreTokenizer> read_metaspace(const JsonView& view);
std::unique_ptr<PreTokenizer> read_split(const JsonView& view);
std::unique_ptr<PreTokenizer> read_digits(const JsonView& view);
std::unique_ptr<PreTokenizer> read_punctuation(const JsonView& view);
std::unique_ptr<PreTokenizer> read_char_delimiter(const JsonView& view);
std::unique_ptr<PreTokenizer> read_fixed_length(const JsonView& view);
std::unique_ptr<PreTokenizer> make_whitespace();
std::unique_ptr<PreTokenizer> make_whitespace_split();
std::unique_ptr<PreTokenizer> make_bert_pre_tokenizer();

}  // namespace trainer::data
