// `normalizer` of tokenizer.json: changes a text before it is split into pieces.
#pragma once

#include <memory>

#include "data/tokenizers/json_view.h"
#include "data/tokenizers/text/aligned_text.h"

namespace trainer::data {

/// Changes a text. Immutable: safe to use from several threads.
class Normalizer {
 public:
  virtual ~Normalizer() = default;
  virtual void apply(AlignedText& text) const = 0;
};

/// Makes the normalizer that `view` describes, null for null; problems are recorded in `view`.
std::unique_ptr<Normalizer> read_normalizer(const JsonView& view);

// One function per type.
std::unique_ptr<Normalizer> read_bert_normalizer(const JsonView& view);
std::unique_ptr<Normalizer> read_precompiled(const JsonView& view);
std::unique_ptr<Normalizer> read_replace(const JsonView& view);
std::unique_ptr<Normalizer> read_strip(const JsonView& view);
std::unique_ptr<Normalizer> read_prepend(const JsonView& view);
std::unique_ptr<Normalizer> make_strip_accents();
std::unique_ptr<Normalizer> make_lowercase();
std::unique_ptr<Normalizer> make_nmt();
std::unique_ptr<Normalizer> make_byte_level_normalizer();

/// NFC and NFKC compose; NFKC and NFKD use compatibility mappings (Unicode Standard Annex #15).
std::unique_ptr<Normalizer> make_unicode_form(bool compose, bool compatible);
/// Applies NFD, for stages that need it.
void decompose(AlignedText& text);

}  // namespace trainer::data
