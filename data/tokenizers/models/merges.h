// The learned merges of byte-pair encoding, by rank.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "data/tokenizers/models/hash.h"

namespace trainer::data {

/// A symbol: a character or a partially merged piece of the text.
struct Symbol {
  int32_t id;
  uint32_t length;  ///< in bytes of the text
};

/// Pairs of ids that are merged, the lowest rank first; of equal ranks, the leftmost pair first.
class Merges {
 public:
  struct Rule {
    int32_t left, right, result;
  };
  static constexpr uint32_t kNoRank = std::numeric_limits<uint32_t>::max();

  Merges() = default;
  /// A rule's rank is its index. The last of several rules for one pair wins.
  explicit Merges(std::vector<Rule> rules);

  const std::vector<Rule>& rules() const { return rules_; }

  /// The rank of the pair; kNoRank when the two don't merge.
  uint32_t rank(int32_t left, int32_t right) const {
    const uint64_t pair = key(left, right);
    for (size_t slot = fold(pair, 0) & mask_;; slot = (slot + 1) & mask_) {
      if (table_[slot].pair == pair) return table_[slot].rank;
      if (table_[slot].pair == kEmpty) return kNoRank;
    }
  }

  /// Applies all merges in place; returns the number of symbols left. Searches the lowest rank linearly for a few
  /// symbols and with a heap for many: O(n log n).
  size_t apply(std::span<Symbol> symbols) const;

 private:
  static constexpr uint64_t kEmpty = std::numeric_limits<uint64_t>::max();  // not a valid pair: ids are not negative
  struct Entry {
    uint64_t pair = kEmpty;
    uint32_t rank = 0;
  };
  static uint64_t key(int32_t left, int32_t right) {
    return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
  }
  size_t apply_to_few(std::span<Symbol> symbols) const;
  size_t apply_to_many(std::span<Symbol> symbols) const;

  std::vector<Rule> rules_;
  std::vector<Entry> table_ = std::vector<Entry>(1);  // open addressing, a power of two
  size_t mask_ = 0;
};

}  // namespace trainer::data
