// `model` of tokenizer.json.
#pragma once

#include <memory>
#include <string>

#include "data/tokenizers/json_view.h"
#include "data/tokenizers/models/token_model.h"

namespace trainer::data {

/// A model and what it does not tell of itself.
struct ReadTokenModel {
  std::unique_ptr<TokenModel> model;  ///< null when there were problems
  int64_t largest_id = -1;
  std::string unk_token;  ///< "" when it has none
};

/// Makes the model that `view` describes; what cannot be read is noted there.
/// Errors: InputError for a vocabulary that contradicts itself.
ReadTokenModel read_token_model(const JsonView& view);

}  // namespace trainer::data
