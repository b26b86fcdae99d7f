// Training a tokenizer in the layout of a model family.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/tokenizers/save_tokenizer.h"

namespace trainer::data {

/// Whose files a tokenizer looks like:
///   kT5     spiece.model with <pad> 0, </s> 1, <unk> 2 and no <s>; extra ids behind
///   kLlama  tokenizer.model with <unk> 0, <s> 1, </s> 2 and a piece for every byte
///   kBert   vocab.txt with [PAD] 0, [UNK] 1, [CLS] 2, [SEP] 3, [MASK] 4, in lower case
enum class TokenizerLayout { kT5, kLlama, kBert };

/// What is to be trained.
struct TokenizerTraining {
  int64_t vocab_size = 0;  // at most so many pieces, without the extra ids
  TokenizerLayout layout = TokenizerLayout::kT5;
  std::string model_type;  // unigram or bpe; "": unigram for T5, else bpe
  int64_t extra_ids = 100;
};

/// The files of a tokenizer learnt from `texts` by SentencePiece, what holds the pieces first. The same texts give the
/// same bytes, with the same version of SentencePiece.
/// Errors: InputError when there is no text, or more different characters than pieces.
std::vector<TokenizerFile> train_tokenizer(const std::vector<std::string>& texts, const TokenizerTraining& training);

}  // namespace trainer::data
