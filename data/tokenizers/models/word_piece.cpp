// WordPiece: splits a word into the longest pieces from left to right.
#include <algorithm>

#include "data/tokenizers/models/byte_trie.h"
#include "data/tokenizers/models/chars.h"
#include "data/tokenizers/models/token_model.h"
#include "data/tokenizers/models/vocabulary.h"
#include "data/tokenizers/models/word_cache.h"
#include "engine/base/errors.h"
#include "engine/base/utf8.h"

namespace trainer::data {
namespace {

/// The pieces that can continue a word, without their prefix.
ByteTrie trie_of_rest(const Vocabulary& vocab, std::string_view prefix) {
  std::vector<std::pair<std::string_view, int32_t>> pieces;
  for (const auto& [id, piece] : vocab.entries()) {
    if (piece.starts_with(prefix)) pieces.emplace_back(piece.substr(prefix.size()), id);
  }
  return ByteTrie(std::move(pieces));
}

class WordPiece final : public TokenModel {
 public:
  explicit WordPiece(const WordPieceOptions& options)
      : vocab_(options.vocab),
        first_(trie_of_rest(vocab_, "")),
        rest_(trie_of_rest(vocab_, options.continuing_subword_prefix)),
        unk_token_(options.unk_token),
        unk_id_(vocab_.find(options.unk_token)),
        max_chars_(static_cast<size_t>(std::max<int64_t>(options.max_input_chars_per_word, 0))) {}

  void encode(std::string_view text, std::vector<Token>& out) const override {
    WordCache& cache = WordCache::of_thread();
    if (cache.find(owner_, text, 0, out)) return;
    const size_t before = out.size();
    if ((text.size() > max_chars_ && count_characters(text) > max_chars_) || !cut(text, out)) {
      out.resize(before);
      if (!unk_id_)
        throw InputError("'{}' can't be built from pieces of the vocabulary, which lacks unk_token '{}' too.", text,
                         unk_token_);
      out.push_back({*unk_id_, 0, static_cast<uint32_t>(text.size())});
    }
    cache.keep(owner_, text, 0, out, before);
  }
  std::optional<int32_t> id_of(std::string_view piece) const override { return vocab_.find(piece); }
  std::string_view piece_of(int32_t id) const override { return vocab_.piece_of(id); }
  int64_t size() const override { return static_cast<int64_t>(vocab_.entries().size()); }

 private:
  /// False when a part of the word isn't in the vocabulary.
  bool cut(std::string_view text, std::vector<Token>& out) const {
    for (size_t begin = 0; begin < text.size();) {
      size_t length = 0;
      int32_t id = -1;
      (begin == 0 ? first_ : rest_).for_each_prefix(text.substr(begin), [&](size_t bytes, int32_t value) {
        length = bytes;
        id = value;
      });
      if (length == 0) return false;
      out.push_back({id, static_cast<uint32_t>(begin), static_cast<uint32_t>(begin + length)});
      begin += length;
    }
    return true;
  }

  Vocabulary vocab_;
  ByteTrie first_, rest_;
  std::string unk_token_;
  std::optional<int32_t> unk_id_;
  size_t max_chars_;
  uint64_t owner_ = WordCache::new_owner();
};

}  // namespace

std::unique_ptr<TokenModel> make_word_piece(WordPieceOptions options) {
  return std::make_unique<WordPiece>(options);
}

}  // namespace trainer::data
