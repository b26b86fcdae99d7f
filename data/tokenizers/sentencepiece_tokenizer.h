// A SentencePiece model with the special tokens that Hugging Face's files add.
#pragma once

#include <filesystem>
#include <memory>

#include "data/tokenizers/tokenizer.h"

namespace trainer::data {

/// Opens `model_file` and the JSON files next to it. Gives the ids of transformers' T5Tokenizer: T5's extra ids
/// (`<extra_id_0>` is the last id) and control pieces are recognized in the text before normalization.
/// Errors: InputError for broken files, or a model without an end-of-sequence piece.
std::unique_ptr<Tokenizer> open_sentencepiece(const std::filesystem::path& model_file);

}  // namespace trainer::data
