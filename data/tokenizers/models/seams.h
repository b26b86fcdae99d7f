// Where byte-pair encoding can never reach across.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/tokenizers/models/hash.h"
#include "data/tokenizers/models/merges.h"

namespace trainer::data {

/// Says of two neighbours among the first symbols of a text (those of its characters) whether any merge can ever join
/// what contains them. Where none can, the text may be cut and its parts encoded each on its own: a line of many words
/// becomes words, which are short and come again.
///
/// Source: our own. A symbol that comes to be from others begins with the first and ends with the last of them, so the
/// two symbols at a seam of a merge are known from its parts, the shorter pieces first.
class Seams {
 public:
  /// Cuts nowhere.
  Seams() : can_join_(kBits / 64, ~uint64_t{0}) {}

  struct Piece {
    int32_t id;
    size_t bytes;
    bool is_first;  ///< a text may begin as it: a character, a byte piece, the unknown piece
  };
  /// `pieces` by id, none empty. Each merge's result must have as many bytes as its parts together. Where a piece could
  /// begin or end in too many ways it cuts nowhere.
  Seams(std::span<const Piece> pieces, const Merges& merges);

  /// May be true of some that cannot join; never false of ones that can.
  bool can_join(int32_t left, int32_t right) const {
    const uint64_t bit = place(left, right);
    return can_join_[bit / 64] >> (bit % 64) & 1;
  }

 private:
  static constexpr uint64_t kBits = 1 << 18;
  static uint64_t place(int32_t left, int32_t right) {
    return fold(static_cast<uint64_t>(left), static_cast<uint64_t>(right)) % kBits;
  }

  std::vector<uint64_t> can_join_;  // one bit for many pairs
};

}  // namespace trainer::data
