// `decoder` of tokenizer.json: turns pieces into text.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/tokenizers/json_view.h"

namespace trainer::data {

/// Transforms pieces, which are joined at the end. Immutable: safe to use from several threads.
class Decoder {
 public:
  virtual ~Decoder() = default;
  virtual void apply(std::vector<std::string>& pieces) const = 0;
};

/// Makes the decoder that `view` describes, null for null; problems are recorded in `view`.
std::unique_ptr<Decoder> read_decoder(const JsonView& view);

// One function per type.
std::unique_ptr<Decoder> make_byte_level_decoder();
std::unique_ptr<Decoder> make_byte_fallback();
std::unique_ptr<Decoder> make_fuse();
std::unique_ptr<Decoder> read_metaspace_decoder(const JsonView& view);
std::unique_ptr<Decoder> read_word_piece_decoder(const JsonView& view);
std::unique_ptr<Decoder> read_bpe_decoder(const JsonView& view);
std::unique_ptr<Decoder> read_replace_decoder(const JsonView& view);
std::unique_ptr<Decoder> read_strip_decoder(const JsonView& view);

}  // namespace trainer::data
