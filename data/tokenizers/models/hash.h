// A hash of short strings and pairs for in-memory tables.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

namespace trainer::data {

/// Folds the 128-bit product of two words: every bit of the result depends on every bit of both.
inline uint64_t fold(uint64_t a, uint64_t b) {
  __uint128_t product = static_cast<__uint128_t>(a ^ 0x9e3779b97f4a7c15) * (b ^ 0xd1b54a32d192ed03);
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

template <class Word>
inline uint64_t load_word(const char* from) {
  Word word;
  std::memcpy(&word, from, sizeof(Word));
  return word;
}

/// Equal bytes have equal hashes within one run of the program; the hash may change between versions.
inline uint64_t hash_bytes(std::string_view text) {
  const char* at = text.data();
  size_t left = text.size();
  uint64_t hash = left;
  for (; left > 16; left -= 16, at += 16) {
    hash = fold(hash ^ load_word<uint64_t>(at), load_word<uint64_t>(at + 8));
  }
  if (left >= 8) return fold(hash ^ load_word<uint64_t>(at), load_word<uint64_t>(at + left - 8));
  if (left >= 4) return fold(hash ^ load_word<uint32_t>(at), load_word<uint32_t>(at + left - 4));
  if (left == 0) return fold(hash, 0);
  auto byte = [at](size_t i) { return static_cast<uint64_t>(static_cast<unsigned char>(at[i])); };
  return fold(hash, byte(0) | byte(left / 2) << 8 | byte(left - 1) << 16);
}

}  // namespace trainer::data
