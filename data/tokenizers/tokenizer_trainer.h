// Trains a tokenizer in the layout of a model family.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/tokenizers/save_tokenizer.h"

namespace trainer::data {

/// The file layout of a tokenizer:
///   kT5     spiece.model with <pad> 0, </s> 1, <unk> 2 and no <s>; extra ids at the end
///   kLlama  tokenizer.model with <unk> 0, <s> 1, </s> 2 and a piece for every byte
///   kBert   vocab.txt with [PAD] 0, [UNK] 1, [CLS] 2, [SEP] 3, [MASK] 4, in lower case
enum class TokenizerLayout { kT5, kLlama, kBert };

/// Options of the training.
struct TokenizerTraining {
  int64_t vocab_size = 0;  // the maximum number of pieces, without the extra ids
  TokenizerLayout layout = TokenizerLayout::kT5;
  std::string model_type;  // unigram or bpe; "": unigram for T5, else bpe
  int64_t extra_ids = 100;
};

/// Trains a tokenizer on `texts` with SentencePiece and returns its files, the vocabulary first. The same texts give
/// the same bytes with the same version of SentencePiece.
/// Errors: InputError when there is no text, or more distinct characters than pieces.
std::vector<TokenizerFile> train_tokenizer(const std::vector<std::string>& texts, const TokenizerTraining& training);

}  // namespace trainer::data
