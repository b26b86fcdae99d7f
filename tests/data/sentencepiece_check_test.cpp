#include "data/tokenizers/sentencepiece_check.h"

#include <cmath>

#include <gtest/gtest.h>

#include "data/tokenizers/sentencepiece_tokenizer.h"
#include "tests/data/model_maker.h"
#include "tests/data/support.h"

namespace trainer::data {
namespace {

void check(const std::string& model) {
  check_sentencepiece_model(model, "spiece.model");
}

std::string refusal(const std::string& model) {
  return error_of<InputError>([&] { check(model); });
}

// A unit of a double array: the offset from a node to its children, its byte, and whether it has a value.
uint32_t unit(uint32_t offset, uint8_t byte, bool has_value = false) {
  return offset << 10 | (has_value ? 0x100 : 0) | byte;
}
constexpr uint32_t kValue = 0x80000000;

/// A table that replaces "a" by "b": the root's children are at 0 ^ 1 ^ byte.
std::string table(uint32_t value, const std::string& replacements = std::string("b\0", 2)) {
  std::vector<uint32_t> units(256, 0x800000FF);
  units[0] = unit(1, 0);
  units[1 ^ 'a'] = unit(1 ^ 'a' ^ 200, 'a', true);  // its value is at 200
  units[200] = kValue | value;
  return normalizer(units, replacements);
}

TEST(SentencePieceCheck, AcceptsASmallValidModel) {
  TempFolder folder;
  auto tokenizer = open_sentencepiece(folder.write("spiece.model", small_model(trainer_spec(1))));
  EXPECT_EQ(tokenizer->encode("ab b"), (std::vector<int32_t>{3, 6, 3, 5, 1}));
}

TEST(SentencePieceCheck, AcceptsAValidTable) {
  TempFolder folder;
  auto tokenizer = open_sentencepiece(folder.write("spiece.model", small_model(trainer_spec(1) + table(0))));
  EXPECT_EQ(tokenizer->encode("a", false), (std::vector<int32_t>{3, 5}));  // read as "b"
}

TEST(SentencePieceCheck, RejectsBadPieces) {
  contains(refusal(small_model(piece(std::string(200'000, 'x'), -1, 1))), "piece 7 has 200000 bytes");
  contains(refusal(small_model(piece("", -1, 1))), "is empty");
  contains(refusal(small_model(piece("\xff", -1, 1))), "is not UTF-8");
  contains(refusal(small_model(piece(std::string("a\0b", 3), -1, 1))), "NUL");
  contains(refusal(small_model(piece("x", NAN, 1))), "score");
  contains(refusal(small_model(piece("x", -INFINITY, 1))), "score");
  contains(refusal(small_model(piece("x", -1, 9))), "unknown type 9");
  contains(refusal(small_model(piece("<unk2>", 0, 2))), "2 pieces for unknown text");
  contains(refusal(piece("a", 0, 1)), "0 pieces for unknown text");
  contains(refusal(piece("<unk>", 0, 2)), "no ordinary pieces");
  contains(refusal(""), "no pieces");
  std::string nested;
  for (size_t i = 1; i < 60; ++i) nested += piece(std::string(i, 'x'), 0, 4);
  contains(refusal(small_model(nested)), "prefixes of each other");
}

TEST(SentencePieceCheck, AcceptsEveryFiniteScore) {
  TempFolder folder;
  for (uint64_t type : {1, 2}) {
    for (float score : {-1e9f, 3e38f, -3e38f}) {  // Meta's runs of spaces have -1e9; sums of the others overflow
      const std::string pieces = piece("aa", score, 1) + piece("aaa", score, 1) + piece("c", score, 4);
      auto tokenizer = open_sentencepiece(folder.write("spiece.model", small_model(pieces + trainer_spec(type))));
      for (const char* text : {"aaaaaaaaaa", "caab aac c", ""}) {
        EXPECT_EQ(tokenizer->decode(tokenizer->encode(text, false), false).size(), std::string_view(text).size());
      }
    }
  }
}

TEST(SentencePieceCheck, RejectsOtherModelTypes) {
  contains(refusal(small_model(trainer_spec(3))), "model type is 3");
  contains(refusal(small_model(trainer_spec(1) + trainer_spec(4))), "model type is 4");
}

TEST(SentencePieceCheck, RejectsBrokenEncodings) {
  std::string model = small_model();
  contains(refusal(model.substr(0, model.size() - 1)), "truncated");
  contains(refusal(model + "\x0b"), "wire type 3");                           // a group
  contains(refusal(model + number_field(1, 5)), "wire type 0 instead of 2");  // a piece encoded as a number
  contains(refusal(model + std::string(11, '\xff')), "number");
  contains(refusal(model + std::string(1, '\0')), "invalid tag");
  contains(refusal("not a model at all, but a page of text\n"), "not a usable SentencePiece model");
  // a length near 2^64 must not wrap around
  contains(refusal(model + "\x0a" + varint(~uint64_t{0})), "declares 18446744073709551615 bytes");
}

TEST(SentencePieceCheck, RejectsBadTables) {
  auto with = [](const std::string& normalizer_spec) { return refusal(small_model(normalizer_spec)); };
  contains(with(table(2)), "rule without a replacement");
  contains(with(table(0, "b")), "is not terminated");
  contains(with(table(0, std::string("\xff\0", 2))), "invalid UTF-8");
  contains(with(table(0, std::string(5000, 'x') + '\0')), "by 5000 bytes");
  contains(with(normalizer({unit(1, 0)}, "x", 100)), "invalid size of 400");
  contains(with(normalizer({}, "")), "truncated");
  contains(with(bytes_field(3, bytes_field(2, "abc"))), "truncated");
  contains(with(bytes_field(3, bytes_field(2, u32(0xFFFFFFFF) + "abc"))), "truncated");
  contains(with(normalizer({unit(4096, 0)}, std::string("b\0", 2))), "points out of bounds");
  std::vector<uint32_t> circle(256, 0x800000FF);
  circle[0] = unit(1, 0);
  circle[1 ^ 'a'] = unit(1 ^ 'a' ^ 1, 'a');  // its children are those of the root
  contains(with(normalizer(circle, std::string("b\0", 2))), "cycle");
  // a denormalizer's table is checked too
  std::string spec = normalizer({unit(4096, 0)}, std::string("b\0", 2));
  spec[0] = 5 << 3 | 2;
  contains(with(spec), "points out of bounds");
}

}  // namespace
}  // namespace trainer::data
