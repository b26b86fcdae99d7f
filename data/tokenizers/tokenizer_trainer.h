// Training a SentencePiece tokenizer laid out for T5.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trainer::data {

/// What is to be trained.
struct TokenizerTraining {
  int64_t vocab_size = 0;              // at most so many pieces, without the extra ids
  std::string model_type = "unigram";  // or bpe
  int64_t extra_ids = 100;
};

/// A model (the content of spiece.model) with <pad> 0, </s> 1, <unk> 2 and no <s>, learnt from `texts`. The same texts
/// give the same bytes, with the same version of SentencePiece.
/// Errors: InputError when there is no text, or more different characters than pieces.
std::string train_tokenizer(const std::vector<std::string>& texts, const TokenizerTraining& training);

/// The tokenizer_config.json to go with it.
std::string tokenizer_config_json(const TokenizerTraining& training);

}  // namespace trainer::data
