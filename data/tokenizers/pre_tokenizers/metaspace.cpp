#include "data/tokenizers/metaspace_options.h"

#include "data/tokenizers/pre_tokenizers/pre_tokenizer.h"

namespace trainer::data {
namespace {

/// Replaces spaces by a visible character and splits before it.
class Metaspace : public PreTokenizer {
 public:
  explicit Metaspace(const JsonView& view) : options_(read_metaspace_options(view)) {}

  bool needs_origins(bool changed) const override { return changed && options_.prepend == PrependScheme::kFirst; }

  void apply(Pieces& pieces) const override {
    pieces.rewrite([&](const Piece& piece, Rewrite& out) { write(pieces, piece, out); });
    if (!options_.split) return;
    split_pieces(pieces, SplitBehavior::kMergedWithNext, [&](std::string_view text, Splitter& splitter) {
      const std::string& mark = options_.replacement;
      size_t rest = 0;
      for (size_t at = text.find(mark); at != std::string_view::npos; at = text.find(mark, rest)) {
        if (rest < at) splitter.add(rest, at, false);
        rest = at + mark.size();
        splitter.add(at, rest, true);
      }
      if (rest < text.size()) splitter.add(rest, text.size(), false);
    });
  }

 private:
  void write(const Pieces& pieces, const Piece& piece, Rewrite& out) const {
    std::string_view text = pieces.view(piece);
    bool prepend = options_.prepend == PrependScheme::kAlways ||
                   (options_.prepend == PrependScheme::kFirst && pieces.text.origin(piece.begin).begin == 0);
    if (prepend && !text.starts_with(options_.replacement) && !text.starts_with(' ')) {
      out.insert_for(options_.replacement, piece.begin);
    }
    size_t rest = 0;
    for (size_t at = text.find(' '); at != std::string_view::npos; at = text.find(' ', rest)) {
      out.copy(piece.begin + rest, piece.begin + at);
      out.insert_for(options_.replacement, piece.begin + at);
      rest = at + 1;
    }
    out.copy(piece.begin + rest, piece.end);
  }

  MetaspaceOptions options_;
};

}  // namespace

std::unique_ptr<PreTokenizer> read_metaspace(const JsonView& view) {
  return std::make_unique<Metaspace>(view);
}

}  // namespace trainer::data
