// `model` of tokenizer.json.
#pragma once

#include <memory>
#include <string>

#include "data/tokenizers/json_view.h"
#include "data/tokenizers/models/token_model.h"
#include "data/tokenizers/token_lists.h"

namespace trainer::data {

constexpr int64_t kMaxTokenId = 1 << 24;  ///< ids are rows of an embedding

/// A model and the values that TokenModel doesn't provide.
struct ReadTokenModel {
  std::unique_ptr<TokenModel> model;  ///< null when there were problems
  int64_t largest_id = -1;
  std::string unk_token;  ///< "" when it has none
};

/// Makes the model that `view` describes, of type BPE with `lists` if given; problems are recorded in `view`.
/// Errors: InputError for an inconsistent vocabulary.
ReadTokenModel read_token_model(const JsonView& view, TokenLists* lists = nullptr);

}  // namespace trainer::data
