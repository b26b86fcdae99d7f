// `normalizer` of tokenizer.json: what is done to a text before it is cut into pieces.
#pragma once

#include <memory>

#include "data/tokenizers/json_view.h"
#include "data/tokenizers/text/aligned_text.h"

namespace trainer::data {

/// Changes a text. Constant once made: any number of threads may use one at the same time.
class Normalizer {
 public:
  virtual ~Normalizer() = default;
  virtual void apply(AlignedText& text) const = 0;
};

/// Makes the normaliser that `view` describes, null for null; what cannot be read is noted there.
std::unique_ptr<Normalizer> read_normalizer(const JsonView& view);

// One for each kind.
std::unique_ptr<Normalizer> read_bert_normalizer(const JsonView& view);
std::unique_ptr<Normalizer> read_precompiled(const JsonView& view);
std::unique_ptr<Normalizer> read_replace(const JsonView& view);
std::unique_ptr<Normalizer> read_strip(const JsonView& view);
std::unique_ptr<Normalizer> read_prepend(const JsonView& view);
std::unique_ptr<Normalizer> make_strip_accents();
std::unique_ptr<Normalizer> make_lowercase();
std::unique_ptr<Normalizer> make_nmt();
std::unique_ptr<Normalizer> make_byte_level_normalizer();

/// NFC and NFKC compose, NFKC and NFKD are compatible (Unicode Standard Annex #15).
std::unique_ptr<Normalizer> make_unicode_form(bool compose, bool compatible);
/// What NFD does, for stages that need it.
void decompose(AlignedText& text);

}  // namespace trainer::data
