// Finds seams that no merge of byte-pair encoding can cross.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/tokenizers/models/hash.h"
#include "data/tokenizers/models/merges.h"

namespace trainer::data {

/// Tells for two adjacent initial symbols of a text (its characters) whether any merge can join pieces that contain
/// them. If none can, the text can be split there and its parts encoded separately: a line becomes words, which are
/// short and occur again.
///
/// Source: our own. A merged symbol begins with the first and ends with the last of its initial symbols, so the two
/// initial symbols at the seam of a merge follow from its parts, computed from the shorter pieces up.
class Seams {
 public:
  /// Has no seams.
  Seams() : can_join_(kBits / 64, ~uint64_t{0}) {}

  struct Piece {
    int32_t id;
    size_t bytes;
    bool is_first;  ///< it can be an initial symbol: a character, a byte piece, the unknown piece
  };
  /// `pieces` sorted by id, none empty, with those of all merges. Each merge's result must have as many bytes as its parts together. If a piece can
  /// begin or end with too many symbols, there are no seams.
  Seams(std::span<const Piece> pieces, const Merges& merges);

  /// May be true for symbols that cannot join; never false for ones that can.
  bool can_join(int32_t left, int32_t right) const {
    const uint64_t bit = place(left, right);
    return can_join_[bit / 64] >> (bit % 64) & 1;
  }

 private:
  static constexpr uint64_t kBits = 1 << 18;
  static uint64_t place(int32_t left, int32_t right) {
    return fold(static_cast<uint64_t>(left), static_cast<uint64_t>(right)) % kBits;
  }

  std::vector<uint64_t> can_join_;  // each bit stands for many pairs
};

}  // namespace trainer::data
