#include "data/tokenizers/sentencepiece_check.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "data/tokenizers/charsmap_check.h"
#include "data/tokenizers/sentencepiece_model.h"
#include "data/tokenizers/wire_format.h"
#include "engine/base/errors.h"
#include "engine/base/utf8.h"

namespace trainer::data {
namespace {

constexpr size_t kMaxPieces = 4'000'000;
constexpr size_t kMaxPieceBytes = 512;    // the library builds its trie by recursion over the bytes of a piece
constexpr size_t kMaxNestedSymbols = 32;  // of prefixes among user-defined pieces; the library's buffer holds 64
constexpr size_t kMaxSelfTestBytes = 1 << 20;

using SentencePiece = SentencePieceModel::Piece;

/// The fault of a piece; "" when it is valid.
std::string fault(const SentencePiece& piece) {
  if (piece.text.empty()) return "is empty";
  if (piece.text.size() > kMaxPieceBytes) {
    return fmt::format("has {} bytes (at most {} are supported)", piece.text.size(), kMaxPieceBytes);
  }
  if (!is_utf8(piece.text)) return "is not UTF-8";
  if (piece.text.find('\0') != std::string_view::npos) return "contains a NUL byte";
  if (!std::isfinite(piece.score)) return fmt::format("has the score {}", piece.score);
  if (piece.type < PieceType::kNormal || piece.type > PieceType::kByte) {
    return fmt::format("has the unknown type {}", static_cast<uint64_t>(piece.type));
  }
  return "";
}

/// Rejects long chains of user-defined symbols that are prefixes of each other.
void check_nesting(std::vector<std::string_view> symbols) {
  std::sort(symbols.begin(), symbols.end());
  std::vector<std::string_view> prefixes;  // of the current symbol, each a prefix of the next
  for (std::string_view symbol : symbols) {
    while (!prefixes.empty() && !symbol.starts_with(prefixes.back())) prefixes.pop_back();
    prefixes.push_back(symbol);
    if (prefixes.size() > kMaxNestedSymbols)
      throw Malformed{"it has too many user-defined symbols that are prefixes of each other"};
  }
}

class ModelCheck {
 public:
  void run(std::string_view content) {
    for (WireReader reader(content); reader.next();) {
      if (reader.field() == 3 || reader.field() == 5) check_normalizer(reader.bytes());  // 5 is the denormalizer
      if (reader.field() == 4 && reader.bytes().size() > kMaxSelfTestBytes) {
        throw Malformed{"its self-test is too long"};
      }
    }
    const SentencePieceModel model = read_sentencepiece_model(content);
    for (const SentencePiece& piece : model.pieces) add_piece(piece);
    check_whole(model.model_type);
  }

 private:
  void add_piece(const SentencePiece& piece) {
    std::string wrong = fault(piece);
    if (!wrong.empty()) throw Malformed{fmt::format("piece {} {}", count_, wrong)};
    if (++count_ > kMaxPieces) throw Malformed{fmt::format("it has more than {} pieces", kMaxPieces)};
    if (piece.type == PieceType::kNormal) ++normal_;
    if (piece.type == PieceType::kUnknown) ++unknown_;
    if (piece.type == PieceType::kUserDefined) symbols_.push_back(piece.text);
  }

  static void check_normalizer(std::string_view message) {
    for (WireReader reader(message); reader.next();) {
      if (reader.field() == 2 && !reader.bytes().empty()) check_charsmap(reader.bytes());
    }
  }

  void check_whole(uint64_t model_type) {
    if (count_ == 0) throw Malformed{"it has no pieces"};
    if (model_type != SentencePieceModel::kUnigram && model_type != SentencePieceModel::kBpe) {
      throw Malformed{fmt::format("its model type is {}; 1 (unigram) and 2 (BPE) are supported", model_type)};
    }
    if (unknown_ != 1) throw Malformed{fmt::format("it has {} pieces for unknown text instead of one", unknown_)};
    if (normal_ == 0) throw Malformed{"it has no ordinary pieces"};
    check_nesting(std::move(symbols_));
  }

  size_t count_ = 0, normal_ = 0, unknown_ = 0;
  std::vector<std::string_view> symbols_;
};

}  // namespace

void check_sentencepiece_model(std::string_view model, const std::string& path) {
  try {
    ModelCheck().run(model);
  } catch (const Malformed& problem) {
    throw InputError("{}: not a usable SentencePiece model: {}.\nCopy the file again from its source.", path,
                     problem.why);
  }
}

}  // namespace trainer::data
