// The content of a SentencePiece model file.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace trainer::data {

enum class PieceType : uint64_t { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6 };

struct SentencePieceModel {
  static constexpr uint64_t kUnigram = 1, kBpe = 2;  // of model_type

  struct Piece {
    std::string_view text;
    float score = 0;
    PieceType type = PieceType::kNormal;
  };

  std::vector<Piece> pieces;
  uint64_t model_type = kUnigram;
  bool byte_fallback = false, treat_whitespace_as_suffix = false;
  bool add_dummy_prefix = true, remove_extra_whitespaces = true, escape_whitespaces = true;
  std::string_view charsmap;  // normalization rules; "" for none
};

/// Reads the fields above; views are into `model`. Unset fields have the format's defaults. Source of the layout:
/// sentencepiece_model.proto. Errors: Malformed (wire_format.h).
SentencePieceModel read_sentencepiece_model(std::string_view model);

}  // namespace trainer::data
