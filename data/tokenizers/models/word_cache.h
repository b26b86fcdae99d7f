// A cache of the tokens of recent words.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "data/tokenizers/models/token_model.h"

namespace trainer::data {

/// Caches the tokens of short words in one table per thread (2 MB, allocated at its first word), shared by all models
/// of that thread: a word stays until another one takes its slot.
class WordCache {
 public:
  static constexpr size_t kMaxBytes = 46, kMaxTokens = 12;

  /// The calling thread's cache.
  static WordCache& of_thread();
  /// A unique number, which a model uses as `owner`.
  static uint64_t new_owner();

  /// Appends the tokens of `word` with `offset` added to their positions; false when they aren't cached.
  bool find(uint64_t owner, std::string_view word, uint32_t offset, std::vector<Token>& out) const;

  /// Caches out[first…], the tokens of `word` at `offset`, unless they are too long.
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
