// The models of Hugging Face's `tokenizer.json`: they turn a pre-token into ids.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace trainer::data {

/// One token: its id and the bytes [begin, end) of its text.
struct Token {
  int32_t id;
  uint32_t begin, end;
  bool operator==(const Token&) const = default;
};

/// Turns pre-tokens into ids. Immutable: safe to use from several threads.
class TokenModel {
 public:
  virtual ~TokenModel() = default;

  /// Appends the tokens of `text` (one pre-token, or a whole text; valid UTF-8) to `out`.
  /// @throws InputError when the text needs an unknown token and the model has none.
  virtual void encode(std::string_view text, std::vector<Token>& out) const = 0;

  /// Like encode() of `bytes` spelled in the byte-level alphabet (byte_alphabet.h), but with offsets into `bytes`,
  /// which may be invalid UTF-8. BPE skips the spelling: a fast path for a trailing ByteLevel pre-tokenizer.
  virtual void encode_bytes(std::string_view bytes, std::vector<Token>& out) const;

  /// The id of exactly this piece, if the model has it.
  virtual std::optional<int32_t> id_of(std::string_view piece) const = 0;
  /// The piece of an id; a default-constructed view (`data() == nullptr`) when there is none.
  virtual std::string_view piece_of(int32_t id) const = 0;
  /// The number of pieces (ids may have gaps, so the largest id can be larger).
  virtual int64_t size() const = 0;
};

/// `model.vocab` of `tokenizer.json`: pieces and their ids, in any order.
using VocabList = std::vector<std::pair<std::string, int64_t>>;

/// `model` of type BPE. `merges` in order of rank.
struct BpeOptions {
  VocabList vocab;
  std::vector<std::pair<std::string, std::string>> merges;
  std::optional<std::string> unk_token;
  std::string continuing_subword_prefix, end_of_word_suffix;  ///< empty: none
  bool fuse_unk = false, byte_fallback = false, ignore_merges = false;
};

/// `model` of type Unigram. A piece's id is its index.
struct UnigramOptions {
  std::vector<std::pair<std::string, double>> pieces;
  std::optional<int64_t> unk_id;
  bool byte_fallback = false;
};

/// `model` of type WordPiece.
struct WordPieceOptions {
  VocabList vocab;
  std::string unk_token = "[UNK]", continuing_subword_prefix = "##";
  int64_t max_input_chars_per_word = 100;
};

/// `model` of type WordLevel.
struct WordLevelOptions {
  VocabList vocab;
  std::string unk_token = "<unk>";
};

/// Each throws InputError for an inconsistent vocabulary.
std::unique_ptr<TokenModel> make_bpe(BpeOptions options);
std::unique_ptr<TokenModel> make_unigram(UnigramOptions options);
std::unique_ptr<TokenModel> make_word_piece(WordPieceOptions options);
std::unique_ptr<TokenModel> make_word_level(WordLevelOptions options);

}  // namespace trainer::data
