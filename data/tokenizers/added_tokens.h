// Tokens that are found in a text as they stand, before the model sees it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizers/models/byte_trie.h"
#include "data/tokenizers/models/token_model.h"
#include "data/tokenizers/normalizers/normalizer.h"
#include "data/tokenizers/text/pieces.h"

namespace trainer::data {

/// An entry of `added_tokens`.
struct AddedToken {
  std::string content;
  bool single_word = false;  ///< not inside of a word
  bool lstrip = false;       ///< takes the white space before it
  bool rstrip = false;       ///< takes the white space behind it
  bool normalized = true;    ///< found in the normalised text, not in the original
  bool special = false;      ///< left out by decoding
  bool operator==(const AddedToken&) const = default;
};

/// The added tokens of a tokenizer.
class AddedTokens {
 public:
  /// Adds tokens in this order: with the model's id where it has the piece, else with the next free one.
  void add(const std::vector<AddedToken>& tokens, const TokenModel& model);

  /// Gets ready to find them; to be called once, after the last add().
  void prepare(const Normalizer* normalizer);

  /// Splits the original text at those that are not normalised.
  void split_original(Pieces& pieces) const { split(original_.get(), pieces); }
  /// Splits normalised text at those that are.
  void split_normalized(Pieces& pieces) const { split(normalized_.get(), pieces); }

  std::optional<int32_t> id_of(std::string_view content) const;
  /// Null when `id` is none of them.
  const AddedToken* token_of(int32_t id) const;
  /// What stands for `id` in decoding; null when it is none of them.
  const std::string* text_of(int32_t id) const;
  bool is_special(std::string_view content) const { return specials_.contains(content); }
  /// The largest id; -1 without tokens.
  int32_t largest_id() const { return tokens_.empty() ? -1 : tokens_.rbegin()->first; }

 private:
  struct Found {
    size_t begin, end;
    int32_t id;
  };
  void split(const ByteTrie* trie, Pieces& pieces) const;
  std::optional<Found> find(const ByteTrie& trie, std::string_view text, size_t from) const;
  void split_piece(const ByteTrie& trie, std::string_view text, uint32_t start, std::vector<Piece>& result) const;

  std::map<int32_t, AddedToken> tokens_;
  std::map<int32_t, std::string> texts_;  // normalised, where that differs
  std::map<std::string, int32_t, std::less<>> ids_;
  std::set<std::string, std::less<>> specials_;
  std::unique_ptr<ByteTrie> original_, normalized_;  // null: nothing to find
};

/// Makes the token that an object of `added_tokens` or `added_tokens_decoder` describes.
AddedToken read_added_token(const JsonView& view);

}  // namespace trainer::data
