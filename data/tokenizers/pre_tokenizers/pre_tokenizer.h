// `pre_tokenizer` of tokenizer.json: what cuts a text into pieces for the model.
#pragma once

#include <memory>

#include "data/tokenizers/json_view.h"
#include "data/tokenizers/text/pieces.h"

namespace trainer::data {

/// Cuts pieces into smaller ones, and may change their text. Constant once made: any number of threads may use one at
/// the same time.
class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  virtual void apply(Pieces& pieces) const = 0;
  /// Whether it asks where a piece comes from in a text that was changed before (`changed`), which must be aligned
  /// then.
  virtual bool needs_origins(bool changed) const { return false; }
  /// Tells the last stage that the model can spell bytes as characters itself (TokenModel::encode_bytes).
  /// @returns whether it leaves that to the model from now on.
  virtual bool leave_bytes() { return false; }
};

/// Makes the pre-tokenizer that `view` describes, null for null; what cannot be read is noted there.
std::unique_ptr<PreTokenizer> read_pre_tokenizer(const JsonView& view);

// One for each kind.
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
