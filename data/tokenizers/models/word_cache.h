// The tokens of words seen lately.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "data/tokenizers/models/token_model.h"

namespace trainer::data {

/// Remembers the tokens of short words, one table for each thread (2 MB, made at its first word), shared by all models
/// of that thread: a word lives until another falls on its place.
class WordCache {
 public:
  static constexpr size_t kMaxBytes = 46, kMaxTokens = 12;

  /// The calling thread's.
  static WordCache& of_thread();
  /// A number that no other has: what one model uses as `owner`.
  static uint64_t new_owner();

  /// Appends the tokens of `word` with `offset` added to their places; false when they are not here.
  bool find(uint64_t owner, std::string_view word, uint32_t offset, std::vector<Token>& out) const;

  /// Remembers out[first…], the tokens of `word`, which lies at `offset`; too long ones are not kept.
  void keep(uint64_t owner, std::string_view word, uint32_t offset, const std::vector<Token>& out, size_t first);

 private:
  static constexpr size_t kSlots = 1 << 14;
  struct alignas(64) Slot {
    uint64_t owner = 0;
    uint8_t bytes = 0, tokens = 0;
    std::array<char, kMaxBytes> word;
    std::array<int32_t, kMaxTokens> ids;
    std::array<uint8_t, kMaxTokens> begins, ends;
  };
  static_assert(sizeof(Slot) == 128);

  static size_t slot_of(uint64_t owner, std::string_view word);

  std::vector<Slot> slots_ = std::vector<Slot>(kSlots);
};

}  // namespace trainer::data
