// Added tokens: matched verbatim in a text before the model tokenizes it.
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
  bool single_word = false;  ///< not inside a word
  bool lstrip = false;       ///< includes the white space before it
  bool rstrip = false;       ///< includes the white space after it
  bool normalized = true;    ///< matched in the normalized text, not in the original
  bool special = false;      ///< omitted by decoding
  bool operator==(const AddedToken&) const = default;
};

/// The added tokens of a tokenizer.
class AddedTokens {
 public:
  /// Adds tokens in this order: with the model's id if it has the piece, else with the next free id.
  void add(const std::vector<AddedToken>& tokens, const TokenModel& model);

  /// Builds the matchers; to be called once, after the last add().
  void prepare(const Normalizer* normalizer);

  /// Splits the original text at the tokens that are not normalized.
  void split_original(Pieces& pieces) const { split(original_.get(), pieces); }
  /// Splits normalized text at the tokens that are normalized.
  void split_normalized(Pieces& pieces) const { split(normalized_.get(), pieces); }

  std::optional<int32_t> id_of(std::string_view content) const;
  /// Null when `id` isn't an added token.
  const AddedToken* token_of(int32_t id) const;
  /// The text of `id` in decoding; null when it isn't an added token.
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
  std::map<int32_t, std::string> texts_;  // normalized, where that differs
  std::map<std::string, int32_t, std::less<>> ids_;
  std::set<std::string, std::less<>> specials_;
  std::unique_ptr<ByteTrie> original_, normalized_;  // null: nothing to match
};

/// Reads an entry of `added_tokens` or `added_tokens_decoder`.
AddedToken read_added_token(const JsonView& view);

}  // namespace trainer::data
