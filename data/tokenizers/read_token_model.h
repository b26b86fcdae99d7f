// `model` of tokenizer.json.
#pragma once

#include <memory>
#include <string>

#include "data/tokenizers/json_view.h"
#include "data/tokenizers/models/token_model.h"

namespace trainer::data {

/// A model and the values that TokenModel doesn't provide.
struct ReadTokenModel {
  std::unique_ptr<TokenModel> model;  ///< null when there were problems
  int64_t largest_id = -1;
  std::string unk_token;  ///< "" when it has none
};

/// Makes the model that `view` describes; problems are recorded in `view`.
/// Errors: InputError for an inconsistent vocabulary.
ReadTokenModel read_token_model(const JsonView& view);

}  // namespace trainer::data
