// The tokenizers of Hugging Face's library `tokenizers`: a normalizer, a pre-tokenizer, a model, a post-processor and a
// decoder, each of several types.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include <nlohmann/json.hpp>

#include "data/tokenizers/token_lists.h"
#include "data/tokenizers/tokenizer.h"
#include "data/tokenizers/tokenizer_files.h"

namespace trainer::data {

/// Opens a tokenizer.json with the JSON files next to it. Gives the same ids, offsets and texts as `tokenizers`.
/// Errors: InputError with the path of each problem.
std::unique_ptr<Tokenizer> open_tokenizer_json(const std::filesystem::path& file);

/// Opens the vocabulary files `vocab.json` and `merges.txt`, or `vocab.txt`, with the JSON files next to them.
/// Errors: InputError.
std::unique_ptr<Tokenizer> open_vocab_files(const std::filesystem::path& vocab_file);

/// The tokenizer.json that means the same as these vocabulary files; sets the special tokens that `settings` lacks.
/// Errors: InputError.
nlohmann::json read_vocab_files(const std::filesystem::path& vocab_file, TokenizerSettings& settings);

/// The tokenizer that `root`, the content of `file`, and `settings` describe; `lists` as in read_tokenizer_json().
/// Errors: InputError.
std::unique_ptr<Tokenizer> make_json_tokenizer(const nlohmann::json& root, const std::filesystem::path& file,
                                               TokenizerSettings settings, TokenLists* lists = nullptr);

}  // namespace trainer::data
