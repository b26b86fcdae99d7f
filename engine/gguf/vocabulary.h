// A tokenizer as a GGUF file describes it.
#pragma once

#include <cstdint>
#include <filesystem>

#include "engine/gguf/gguf_writer.h"

namespace trainer::gguf {

/// The metadata "tokenizer.*" for the tokenizer in a model folder: byte-level BPE, SentencePiece (BPE or unigram), or a
/// tokenizer.json with the rules of SentencePiece's BPE. `rows`: of the model's embedding; ids without a token get a
/// placeholder. Errors: InputError when there is no tokenizer, or it has more ids than rows; ConfigError for a kind
/// that llama.cpp doesn't have.
Metadata vocabulary(const std::filesystem::path& folder, int64_t rows);

}  // namespace trainer::gguf
