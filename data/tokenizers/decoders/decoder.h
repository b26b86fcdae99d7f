// `decoder` of tokenizer.json: from the pieces of ids to text.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/tokenizers/json_view.h"

namespace trainer::data {

/// Changes pieces; in the end they are joined. Constant once made: any number of threads may use one at the same time.
class Decoder {
 public:
  virtual ~Decoder() = default;
  virtual void apply(std::vector<std::string>& pieces) const = 0;
};

/// Makes the decoder that `view` describes, null for null; what cannot be read is noted there.
std::unique_ptr<Decoder> read_decoder(const JsonView& view);

// One for each kind.
std::unique_ptr<Decoder> make_byte_level_decoder();
std::unique_ptr<Decoder> make_byte_fallback();
std::unique_ptr<Decoder> make_fuse();
std::unique_ptr<Decoder> read_metaspace_decoder(const JsonView& view);
std::unique_ptr<Decoder> read_word_piece_decoder(const JsonView& view);
std::unique_ptr<Decoder> read_bpe_decoder(const JsonView& view);
std::unique_ptr<Decoder> read_replace_decoder(const JsonView& view);
std::unique_ptr<Decoder> read_strip_decoder(const JsonView& view);

}  // namespace trainer::data
