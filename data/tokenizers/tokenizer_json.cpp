#include "data/tokenizers/tokenizer_json.h"

#include "engine/base/errors.h"

namespace trainer::data {
namespace {

/// The tokens of `added_tokens`. By the format's rules, their ids follow from the vocabulary and from their order.
std::vector<AddedToken> read_added_tokens(const JsonView& view) {
  std::vector<AddedToken> tokens;
  for (const JsonView& item : view.items()) {
    item.at("id").integer(0, (1 << 24) - 1);
    tokens.push_back(read_added_token(item));
  }
  return tokens;
}

}  // namespace

TokenizerStages read_tokenizer_json(const nlohmann::json& root, const std::string& file, TokenLists* lists) {
  JsonProblems problems;
  JsonView view(root, problems);
  if (!view.is_object()) view.problem("expected a JSON object");
  TokenizerStages stages;
  stages.normalizer = read_normalizer(view.at("normalizer"));
  stages.pre_tokenizer = read_pre_tokenizer(view.at("pre_tokenizer"));
  stages.post_processor = read_post_processor(view.at("post_processor"));
  stages.decoder = read_decoder(view.at("decoder"));
  std::vector<AddedToken> added = read_added_tokens(view.at("added_tokens"));
  try {
    ReadTokenModel read = read_token_model(view.at("model"), lists);
    stages.model = std::move(read.model);
    stages.largest_id = read.largest_id;
    stages.unk_token = std::move(read.unk_token);
  } catch (const InputError& error) {
    throw InputError("{}: model: {}", file, error.what());
  }
  problems.throw_if_any(file);
  require(stages.model != nullptr, "{}: no model and no problem", file);
  stages.added.add(added, *stages.model);
  return stages;
}

}  // namespace trainer::data
