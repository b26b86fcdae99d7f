// A tokenizer.json whose two long lists aren't made into JSON values.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "data/tokenizers/models/token_model.h"

namespace trainer::data {

/// `vocab` and `merges` of a model of type BPE.
struct TokenLists {
  VocabList vocab;
  std::vector<std::pair<std::string, std::string>> merges;
};

struct ParsedTokenizer {
  nlohmann::json root;  ///< without `lists`
  TokenLists lists;
};

/// Parses the usual file of a BPE tokenizer: with 128,000 pieces it takes a third of the time, and of the memory, of
/// parse_json(). Nothing for any other file, valid or not, which parse_json() is for: it says what is wrong.
std::optional<ParsedTokenizer> parse_bpe_tokenizer(std::string_view text);

/// The parts of a merge written as "a b"; nothing if there isn't exactly one space.
std::optional<std::pair<std::string, std::string>> split_merge(std::string_view merge);

}  // namespace trainer::data
