// Reads Hugging Face's tokenizer.json.
#pragma once

#include <memory>
#include <string>

#include <nlohmann/json.hpp>

#include "data/tokenizers/added_tokens.h"
#include "data/tokenizers/decoders/decoder.h"
#include "data/tokenizers/normalizers/normalizer.h"
#include "data/tokenizers/post_processors/post_processor.h"
#include "data/tokenizers/pre_tokenizers/pre_tokenizer.h"
#include "data/tokenizers/read_token_model.h"

namespace trainer::data {

/// The stages that a text passes through, in this order. Only the model is never null.
struct TokenizerStages {
  std::unique_ptr<Normalizer> normalizer;
  std::unique_ptr<PreTokenizer> pre_tokenizer;
  std::unique_ptr<TokenModel> model;
  std::unique_ptr<PostProcessor> post_processor;
  std::unique_ptr<Decoder> decoder;
  AddedTokens added;        ///< before prepare()
  int64_t largest_id = -1;  ///< of the model
  std::string unk_token;    ///< the model's; "" when it has none
};

/// Makes the stages that `root`, the content of `file`, describes. `truncation` and `padding` are ignored: they are up
/// to the caller. `lists`: taken from `root` when it was parsed. Errors: InputError with the path of each problem.
TokenizerStages read_tokenizer_json(const nlohmann::json& root, const std::string& file, TokenLists* lists = nullptr);

}  // namespace trainer::data
