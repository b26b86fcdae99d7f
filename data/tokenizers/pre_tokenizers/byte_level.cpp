#include "data/tokenizers/pre_tokenizers/pre_tokenizer.h"
#include "data/tokenizers/text/spell_bytes.h"

namespace trainer::data {
namespace {

/// Splits words as GPT-2 does, and writes every byte as a character.
class ByteLevel : public PreTokenizer {
 public:
  explicit ByteLevel(const JsonView& view)
      : add_prefix_space_(view.at("add_prefix_space").flag()), use_regex_(view.at("use_regex").flag(true)) {}

  void apply(Pieces& pieces) const override {
    if (add_prefix_space_) prefix_spaces(pieces);
    if (use_regex_) {
      split_pieces(pieces, SplitBehavior::kIsolated,
                   [](std::string_view text, Splitter& splitter) { split_by(words(), false, text, splitter); });
    }
    if (leave_bytes_) return;
    pieces.rewrite([&](const Piece& piece, Rewrite& out) { spell_bytes(pieces.text, piece.begin, piece.end, out); });
  }

  bool leave_bytes() override { return leave_bytes_ = true; }

 private:
  static const Pattern& words() {
    static const Pattern pattern =
        Pattern::regex(R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)");
    return pattern;
  }

  static void prefix_spaces(Pieces& pieces) {
    pieces.rewrite([&](const Piece& piece, Rewrite& out) {
      if (!pieces.view(piece).starts_with(' ')) out.insert_for(" ", piece.begin);
      out.copy(piece.begin, piece.end);
    });
  }

  bool add_prefix_space_, use_regex_, leave_bytes_ = false;
};

}  // namespace

std::unique_ptr<PreTokenizer> read_byte_level(const JsonView& view) {
  return std::make_unique<ByteLevel>(view);
}

}  // namespace trainer::data
