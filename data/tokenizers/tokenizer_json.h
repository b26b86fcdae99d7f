// Hugging Face's tokenizer.json.
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

/// The stages that a text passes, in this order. Only the model is never null.
struct TokenizerStages {
  std::unique_ptr<Normalizer> normalizer;
  std::unique_ptr<PreTokenizer> pre_tokenizer;
  std::unique_ptr<TokenModel> model;
  std::unique_ptr<PostProcessor> post_processor;
  std::unique_ptr<Decoder> decoder;
  AddedTokens added;        ///< not yet prepared
  int64_t largest_id = -1;  ///< of the model
  std::string unk_token;    ///< the model's; "" when it has none
};

/// Makes the stages that `root`, the content of `file`, describes. `truncation` and `padding` are the caller's affair
/// and are not read. Errors: InputError with the path of all that is wrong in it.
TokenizerStages read_tokenizer_json(const nlohmann::json& root, const std::string& file);

}  // namespace trainer::data
