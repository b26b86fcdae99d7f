// Handmade SentencePiece models, valid and invalid.
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <vector>

namespace trainer::data {

inline std::string varint(uint64_t value) {
  std::string bytes;
  for (; value >= 128; value >>= 7) bytes += static_cast<char>(value | 128);
  return bytes + static_cast<char>(value);
}

inline std::string number_field(uint32_t field, uint64_t value) {
  return varint(field << 3) + varint(value);
}

inline std::string bytes_field(uint32_t field, const std::string& bytes) {
  return varint(field << 3 | 2) + varint(bytes.size()) + bytes;
}

inline std::string u32(uint32_t value) {
  std::string bytes;
  for (int i = 0; i < 4; ++i) bytes += static_cast<char>(value >> (8 * i));
  return bytes;
}

inline std::string float_field(uint32_t field, float value) {
  return varint(field << 3 | 5) + u32(std::bit_cast<uint32_t>(value));
}

inline std::string piece(const std::string& text, float score, uint64_t type) {
  return bytes_field(1, bytes_field(1, text) + float_field(2, score) + number_field(3, type));
}

/// <pad> </s> <unk> and some letters; `extra`: additional fields.
inline std::string small_model(const std::string& extra = "") {
  return piece("<pad>", 0, 3) + piece("</s>", 0, 3) + piece("<unk>", 0, 2) + piece("\u2581", -1, 1) +
         piece("a", -2, 1) + piece("b", -3, 1) + piece("ab", -2.5f, 1) + extra;
}

inline std::string trainer_spec(uint64_t model_type) {
  return bytes_field(2, number_field(3, model_type) + bytes_field(48, "</s>"));
}

/// A normalizer whose table has these units, filled up to `count`, and replacements.
inline std::string normalizer(const std::vector<uint32_t>& units, const std::string& replacements, size_t count = 256) {
  std::string trie;
  for (size_t i = 0; i < count; ++i) trie += u32(i < units.size() ? units[i] : 0x80000000);
  return bytes_field(3, bytes_field(2, u32(static_cast<uint32_t>(trie.size())) + trie + replacements));
}

}  // namespace trainer::data
