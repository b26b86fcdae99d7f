// A text split into pieces for the model.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "data/tokenizers/text/aligned_text.h"
#include "data/tokenizers/text/pattern.h"

namespace trainer::data {

/// The bytes [begin, end) of a text; an added token if `token` is its id.
struct Piece {
  uint32_t begin, end;
  int32_t token = -1;
};

/// The pieces of a text to tokenize; the text between them is dropped.
struct Pieces {
  AlignedText text;
  std::vector<Piece> list;

  std::string_view view(const Piece& piece) const { return text.view().substr(piece.begin, piece.end - piece.begin); }

  /// Rewrites the text: `write(piece, out)` writes the new text of each piece that isn't an added token.
  template <class Write>
  void rewrite(Write&& write) {
    Rewrite out(text);
    for (Piece& piece : list) {
      auto begin = static_cast<uint32_t>(out.size());
      if (piece.token >= 0) {
        out.copy(piece.begin, piece.end);
      } else {
        write(piece, out);
      }
      piece.begin = begin;
      piece.end = static_cast<uint32_t>(out.size());
    }
    out.finish(text);
  }
};

/// How the matches of a delimiter are treated.
enum class SplitBehavior { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };

/// Collects the pieces of one piece from its spans: matches and non-matches that cover it without gaps.
class Splitter {
 public:
  Splitter(std::vector<Piece>& pieces, uint32_t start, SplitBehavior behavior)
      : pieces_(pieces), first_(pieces.size()), start_(start), behavior_(behavior) {}

  void add(size_t begin, size_t end, bool match);
  /// To be called after the last span.
  void finish();

 private:
  void push(size_t begin, size_t end);
  bool extend_last(size_t end);

  std::vector<Piece>& pieces_;
  size_t first_;
  uint32_t start_;
  SplitBehavior behavior_;
  bool after_match_ = false;
  size_t waiting_begin_ = 0, waiting_end_ = 0;  // a match that may be merged with the next span
};

/// Splits each piece that isn't an added token: `split(text of the piece, splitter)` adds its spans.
template <class Split>
void split_pieces(Pieces& pieces, SplitBehavior behavior, Split&& split) {
  std::vector<Piece> result;
  result.reserve(pieces.list.size() + pieces.text.view().size() / 4);
  for (const Piece& piece : pieces.list) {
    if (piece.token >= 0) {
      result.push_back(piece);
      continue;
    }
    Splitter splitter(result, piece.begin, behavior);
    split(pieces.view(piece), splitter);
    splitter.finish();
  }
  pieces.list = std::move(result);
}

/// Adds the matches of `pattern` and the text between them; `invert`: swaps their roles.
void split_by(const Pattern& pattern, bool invert, std::string_view text, Splitter& splitter);

/// Adds each delimiter character, and the text between them.
template <class IsDelimiter>
void split_at_chars(std::string_view text, Splitter& splitter, IsDelimiter&& is_delimiter) {
  size_t rest = 0;
  for (size_t at = 0; at < text.size();) {
    Char c = char_at(text, at);
    size_t end = at + c.length;
    if (is_delimiter(c.code)) {
      if (rest < at) splitter.add(rest, at, false);
      splitter.add(at, end, true);
      rest = end;
    }
    at = end;
  }
  if (rest < text.size()) splitter.add(rest, text.size(), false);
}

}  // namespace trainer::data
