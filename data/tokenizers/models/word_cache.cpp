#include "data/tokenizers/models/word_cache.h"

#include <atomic>
#include <cstring>

#include "data/tokenizers/models/hash.h"

namespace trainer::data {

WordCache& WordCache::of_thread() {
  thread_local WordCache cache;
  return cache;
}

uint64_t WordCache::new_owner() {
  static std::atomic<uint64_t> last = 0;
  return ++last;
}

size_t WordCache::slot_of(uint64_t owner, std::string_view word) {
  return (hash_bytes(word) ^ owner * 0x9e3779b97f4a7c15) % kSlots;
}

bool WordCache::find(uint64_t owner, std::string_view word, uint32_t offset, std::vector<Token>& out) const {
  if (word.size() > kMaxBytes) return false;
  const Slot& slot = slots_[slot_of(owner, word)];
  if (slot.owner != owner || slot.bytes != word.size()) return false;
  if (std::memcmp(slot.word.data(), word.data(), word.size()) != 0) return false;
  for (size_t i = 0; i < slot.tokens; ++i) {
    out.push_back({slot.ids[i], offset + slot.begins[i], offset + slot.ends[i]});
  }
  return true;
}

void WordCache::keep(uint64_t owner, std::string_view word, uint32_t offset, const std::vector<Token>& out,
                     size_t first) {
  const size_t tokens = out.size() - first;
  if (word.size() > kMaxBytes || tokens > kMaxTokens) return;
  Slot& slot = slots_[slot_of(owner, word)];
  slot.owner = owner;
  slot.bytes = static_cast<uint8_t>(word.size());
  slot.tokens = static_cast<uint8_t>(tokens);
  std::memcpy(slot.word.data(), word.data(), word.size());
  for (size_t i = 0; i < tokens; ++i) {
    const Token& token = out[first + i];
    slot.ids[i] = token.id;
    slot.begins[i] = static_cast<uint8_t>(token.begin - offset);
    slot.ends[i] = static_cast<uint8_t>(token.end - offset);
  }
}

}  // namespace trainer::data
