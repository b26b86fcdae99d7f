// Byte-pair encoding: learned merges join characters into pieces.
#include <algorithm>

#include "data/tokenizers/models/byte_alphabet.h"
#include "data/tokenizers/models/byte_pieces.h"
#include "data/tokenizers/models/chars.h"
#include "data/tokenizers/models/merges.h"
#include "data/tokenizers/models/seams.h"
#include "data/tokenizers/models/token_model.h"
#include "data/tokenizers/models/vocabulary.h"
#include "data/tokenizers/models/word_cache.h"
#include "engine/base/errors.h"

namespace trainer::data {
namespace {

/// The ids of the parts and of the result of each merge.
std::vector<Merges::Rule> rules_of(const BpeOptions& options, const Vocabulary& vocab) {
  const size_t prefix = options.continuing_subword_prefix.size();
  std::vector<Merges::Rule> rules;
  rules.reserve(options.merges.size());
  std::string result;
  auto find = [&](const std::string& piece, size_t rank) {
    int32_t id = vocab.find_id(piece);
    if (id >= 0) return id;
    const auto& [left, right] = options.merges[rank];
    throw InputError("Merge {} of '{}' and '{}' needs the piece '{}', which is not in the vocabulary.", rank + 1, left,
                     right, piece);
  };
  for (size_t rank = 0; rank < options.merges.size(); ++rank) {
    const auto& [left, right] = options.merges[rank];
    if (right.size() < prefix) {
      throw InputError("Merge {} of '{}' and '{}': the second is shorter than continuing_subword_prefix '{}'.",
                       rank + 1, left, right, options.continuing_subword_prefix);
    }
    result.assign(left).append(right, prefix);
    rules.push_back({find(left, rank), find(right, rank), find(result, rank)});
  }
  return rules;
}

class Bpe final : public TokenModel {
 public:
  explicit Bpe(const BpeOptions& options)
      : vocab_(options.vocab),
        merges_(rules_of(options, vocab_)),
        prefix_(options.continuing_subword_prefix),
        suffix_(options.end_of_word_suffix),
        unk_token_(options.unk_token),
        unk_id_(unk_token_ ? vocab_.find_id(*unk_token_) : -1),
        fuse_unk_(options.fuse_unk),
        ignore_merges_(options.ignore_merges) {
    fill_tables(options.byte_fallback);
    make_seams();
  }

  void encode(std::string_view text, std::vector<Token>& out) const override { encode_as<kChars>(text, out); }
  void encode_bytes(std::string_view bytes, std::vector<Token>& out) const override {
    if (!all_bytes_) return TokenModel::encode_bytes(bytes, out);
    encode_as<kBytes>(bytes, out);
  }

  std::optional<int32_t> id_of(std::string_view piece) const override { return vocab_.find(piece); }
  std::string_view piece_of(int32_t id) const override { return vocab_.piece_of(id); }
  int64_t size() const override { return static_cast<int64_t>(vocab_.entries().size()); }

 private:
  enum Spelling { kChars, kBytes };  ///< whether the initial symbols are characters or bytes

  void fill_tables(bool byte_fallback);
  void make_seams();

  template <Spelling spelling>
  void encode_as(std::string_view text, std::vector<Token>& out) const;
  template <Spelling spelling>
  bool encode_between_seams(std::string_view text, std::vector<Symbol>& symbols, std::vector<Token>& out) const;
  template <Spelling spelling>
  int32_t find_whole(std::string_view text) const;

  void spell(std::string_view text, std::vector<Symbol>& symbols) const;
  std::string_view with_affixes(std::string_view text, size_t at, uint32_t length, std::string& buffer) const;
  bool spell_in_bytes(std::string_view piece, std::vector<Symbol>& symbols) const;
  void merge_part(uint64_t owner, std::string_view part, uint32_t offset, std::vector<Symbol>& symbols,
                  std::vector<Token>& out) const;
  void merge(std::span<Symbol> symbols, uint32_t begin, size_t text_size, std::vector<Token>& out) const;
  int32_t unknown(std::string_view text) const;

  bool plain() const { return prefix_.empty() && suffix_.empty(); }

  Vocabulary vocab_;
  Merges merges_;
  Seams seams_;
  bool cuts_ = false;  // whether seams_ and the spelling allow encoding parts separately
  std::string prefix_, suffix_;
  std::optional<std::string> unk_token_;
  int32_t unk_id_;
  bool fuse_unk_, ignore_merges_;
  CharTable chars_;
  std::array<int32_t, 256> fallback_;  // the byte pieces; -1: none or no byte_fallback
  std::array<int32_t, 256> bytes_;     // the characters of the byte-level alphabet
  bool all_bytes_ = false;             // all of bytes_ are in the vocabulary, and there are no affixes
  // Owners for whole texts and for parts, in characters and in bytes: equal bytes can give different tokens.
  std::array<uint64_t, 2> whole_owner_ = {WordCache::new_owner(), WordCache::new_owner()};
  std::array<uint64_t, 2> part_owner_ = {WordCache::new_owner(), WordCache::new_owner()};
};

void Bpe::fill_tables(bool byte_fallback) {
  for (const auto& [id, piece] : vocab_.entries()) {
    if (piece.empty() || char_length(piece, 0) != piece.size()) continue;
    chars_.set(code_point(piece, 0, static_cast<uint32_t>(piece.size())), id);
  }
  fallback_.fill(-1);
  if (byte_fallback) fallback_ = find_byte_pieces([&](std::string_view piece) { return vocab_.find_id(piece); });
  const ByteAlphabet& alphabet = ByteAlphabet::instance();
  all_bytes_ = plain();
  for (int byte = 0; byte < 256; ++byte) {
    bytes_[byte] = chars_.find(alphabet.code_point(static_cast<unsigned char>(byte)));
    all_bytes_ &= bytes_[byte] >= 0;
  }
}

/// Encoding parts separately equals encoding the whole only if each symbol depends on its character alone: there are no
/// affixes, and unknown characters don't mix byte pieces with the unknown piece.
void Bpe::make_seams() {
  auto known = [](int32_t id) { return id >= 0; };
  const bool all_fall_back = std::all_of(fallback_.begin(), fallback_.end(), known);
  const bool none_falls_back = std::none_of(fallback_.begin(), fallback_.end(), known);
  if (!plain() || !(all_fall_back || none_falls_back)) return;
  std::vector<Seams::Piece> pieces;
  for (const auto& [id, piece] : vocab_.entries()) {
    if (piece.empty()) return;
    const bool is_char = char_length(piece, 0) == piece.size();
    const bool is_byte = all_fall_back && std::find(fallback_.begin(), fallback_.end(), id) != fallback_.end();
    pieces.push_back({id, piece.size(), is_char || is_byte || id == unk_id_});
  }
  seams_ = Seams(pieces, merges_);
  cuts_ = true;
}

template <Bpe::Spelling spelling>
void Bpe::encode_as(std::string_view text, std::vector<Token>& out) const {
  if (text.empty()) return;
  const uint64_t owner = whole_owner_[spelling];
  WordCache& cache = WordCache::of_thread();
  if (cache.find(owner, text, 0, out)) return;
  const size_t before = out.size();
  if (int32_t id = find_whole<spelling>(text); id >= 0) {
    out.push_back({id, 0, static_cast<uint32_t>(text.size())});
  } else {
    check_length(text);
    thread_local std::vector<Symbol> symbols;
    symbols.clear();
    if (!encode_between_seams<spelling>(text, symbols, out)) {
      out.resize(before);
      symbols.clear();
      spell(text, symbols);
      merge(symbols, 0, text.size(), out);
    }
    constexpr size_t kKept = 1 << 16;
    if (symbols.capacity() > kKept) symbols = {};
  }
  cache.keep(owner, text, 0, out, before);
}

/// With ignore_merges, a text that is in the vocabulary is one token, whatever the merges would give.
template <Bpe::Spelling spelling>
int32_t Bpe::find_whole(std::string_view text) const {
  if (!ignore_merges_ || text.size() > vocab_.longest_piece()) return -1;
  if (spelling == kChars) return vocab_.find_id(text);
  std::string spelled;
  ByteAlphabet::instance().spell(text, spelled);
  return vocab_.find_id(spelled);
}

/// False, with partial results in `out`, when a character needs the whole text.
template <Bpe::Spelling spelling>
bool Bpe::encode_between_seams(std::string_view text, std::vector<Symbol>& symbols, std::vector<Token>& out) const {
  if (spelling == kChars && !cuts_) return false;
  uint32_t begin = 0;  // of the part in symbols
  auto flush = [&](size_t end) {
    merge_part(part_owner_[spelling], text.substr(begin, end - begin), begin, symbols, out);
    begin = static_cast<uint32_t>(end);
  };
  bool after_unknown = false;
  for (size_t at = 0; at < text.size();) {
    uint32_t length = 1;
    int32_t id;
    if constexpr (spelling == kBytes) {
      id = bytes_[static_cast<unsigned char>(text[at])];
    } else {
      length = char_length(text, at);
      id = chars_.find(code_point(text, at, length));
    }
    if (id < 0) {
      std::string_view piece = text.substr(at, length);
      const int32_t first_byte = fallback_[static_cast<unsigned char>(piece[0])];
      if (first_byte >= 0) {
        if (!symbols.empty() && !seams_.can_join(symbols.back().id, first_byte)) flush(at);
        spell_in_bytes(piece, symbols);
        at += length;
        continue;
      }
      if (!unk_token_) return false;
      if (after_unknown && fuse_unk_) {
        symbols.back().length += length;
        at += length;
        continue;
      }
      id = unknown(piece);
      after_unknown = true;
    } else {
      after_unknown = false;
    }
    if (!symbols.empty() && !seams_.can_join(symbols.back().id, id)) flush(at);
    symbols.push_back({id, length});
    at += length;
  }
  flush(text.size());
  return true;
}

/// The initial symbols of a text: the character with its affixes, else its bytes, else the unknown piece.
void Bpe::spell(std::string_view text, std::vector<Symbol>& symbols) const {
  std::string buffer;
  int32_t pending = -1;  // a pending unknown piece: more may be fused with it, and byte pieces go before it
  uint32_t pending_length = 0;
  auto add_pending = [&] {
    if (pending >= 0) symbols.push_back({pending, pending_length});
    pending = -1;
  };
  uint32_t length;
  for (size_t at = 0; at < text.size(); at += length) {
    length = char_length(text, at);
    std::string_view piece = with_affixes(text, at, length, buffer);
    const int32_t id = plain() ? chars_.find(code_point(text, at, length)) : vocab_.find_id(piece);
    if (id >= 0) {
      add_pending();
      symbols.push_back({id, length});
    } else if (!spell_in_bytes(piece, symbols) && unk_token_) {
      if (pending >= 0 && fuse_unk_) {
        pending_length += length;
      } else {
        add_pending();
        pending = unknown(piece);
        pending_length = length;
      }
    }
  }
  add_pending();
}

std::string_view Bpe::with_affixes(std::string_view text, size_t at, uint32_t length, std::string& buffer) const {
  std::string_view character = text.substr(at, length);
  const bool prefix = at > 0 && !prefix_.empty(), suffix = at + length == text.size() && !suffix_.empty();
  if (!prefix && !suffix) return character;
  buffer.clear();
  if (prefix) buffer += prefix_;
  buffer += character;
  if (suffix) buffer += suffix_;
  return buffer;
}

/// False when a byte has no piece.
bool Bpe::spell_in_bytes(std::string_view piece, std::vector<Symbol>& symbols) const {
  auto id_of = [&](char byte) { return fallback_[static_cast<unsigned char>(byte)]; };
  if (!std::all_of(piece.begin(), piece.end(), [&](char byte) { return id_of(byte) >= 0; })) return false;
  for (char byte : piece) symbols.push_back({id_of(byte), 1});
  return true;
}

int32_t Bpe::unknown(std::string_view text) const {
  if (unk_id_ < 0) throw InputError("'{}' is not in the vocabulary, nor is unk_token '{}'.", text, *unk_token_);
  return unk_id_;
}

/// Clears `symbols`.
void Bpe::merge_part(uint64_t owner, std::string_view part, uint32_t offset, std::vector<Symbol>& symbols,
                     std::vector<Token>& out) const {
  WordCache& cache = WordCache::of_thread();
  if (symbols.size() == 1) {
    out.push_back({symbols[0].id, offset, offset + symbols[0].length});
  } else if (!cache.find(owner, part, offset, out)) {
    const size_t before = out.size();
    merge(symbols, offset, offset + part.size(), out);
    cache.keep(owner, part, offset, out, before);
  }
  symbols.clear();
}

/// Offsets are sums of lengths, as in the reference: a dropped character shifts the following offsets, and the bytes of
/// an affix count. They never exceed the text.
void Bpe::merge(std::span<Symbol> symbols, uint32_t begin, size_t text_size, std::vector<Token>& out) const {
  const size_t count = merges_.apply(symbols);
  const auto most = static_cast<uint32_t>(text_size);
  for (const Symbol& symbol : symbols.first(count)) {
    const uint32_t end = std::min(begin + symbol.length, most);
    out.push_back({symbol.id, begin, end});
    begin = end;
  }
}

}  // namespace

std::unique_ptr<TokenModel> make_bpe(BpeOptions options) {
  return std::make_unique<Bpe>(options);
}

}  // namespace trainer::data
