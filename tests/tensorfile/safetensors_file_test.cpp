#include "engine/tensorfile/safetensors_file.h"

#include <gtest/gtest.h>

#include <ATen/ops/empty.h>

#include "tests/tensorfile/file_maker.h"

namespace trainer::tensorfile {
namespace {

using namespace std::string_literals;

std::string entry(const std::string& name, const std::string& dtype, const std::string& shape, int64_t begin,
                  int64_t end) {
  return fmt::format(R"("{}":{{"dtype":"{}","shape":{},"data_offsets":[{},{}]}})", name, dtype, shape, begin, end);
}

struct Case {
  std::string name;
  std::string bytes;      // of the file
  std::string complaint;  // part of the message; "": the file is valid
};

std::string files(const std::string& header, size_t data = 0) {
  return file_bytes(header, std::string(data, '\1'));
}

/// A header of `count` empty tensors; `odd` goes into their names.
std::string many(int count, const std::string& odd = "", const std::string& first = "{") {
  std::string header = first;
  for (int i = 0; i < count; ++i) {
    if (i > 0) header += ",";
    header += entry(odd + std::to_string(i), "U8", "[0]", 0, 0);
  }
  return files(header + "}");
}

const std::vector<Case>& cases() {
  static const std::vector<Case> kCases{
      {"NoTensors", files("{}"), ""},
      {"EmptyName", files("{" + entry("", "U8", "[2]", 0, 2) + "}", 2), ""},
      {"Spaces", files(" {" + entry("a", "U8", "[2]", 0, 2) + "} \n ", 2), ""},
      {"MetadataText", files(R"({"__metadata__":{"a":"b"}})"), ""},
      {"MetadataNull", files(R"({"__metadata__":null})"), ""},
      {"UnknownKeysAreIgnored",
       files(R"({"a":{"x":[{"dtype":[1]},-1,null],"dtype":"U8","shape":[1],"y":1.5,"data_offsets":[0,1],"z":{}}})", 1),
       ""},
      {"EmptyAmongOthers",
       files("{" + entry("b", "U8", "[2]", 0, 2) + "," + entry("a", "F32", "[0,3]", 2, 2) + "," +
                 entry("c", "F32", "[0]", 0, 0) + "}",
             2),
       ""},
      {"FourBits", files("{" + entry("a", "F4", "[2]", 0, 1) + "}", 1), ""},

      {"MostTensors", many(100'000), ""},
      {"MostTensorsAndMetadata", many(100'000, "", R"({"__metadata__":{"a":"b"},)"), ""},
      {"MostTensorsOfOddNames", many(100'000, R"(,{\"[,)"), ""},

      {"TooManyTensors", many(100'001), "more than 100000 tensors"},
      {"TooManyTensorsAndMetadata", many(100'001, "", R"({"__metadata__":{"a":"b"},)"), "more than 100000 tensors"},
      {"TooManyTensorsButOneIsCalledSo", many(100'001, R"(\"__metadata__\")"), "more than 100000 tensors"},
      {"EmptyFile", "", "it has 0 bytes, at least 8 are needed"},
      {"SevenBytes", "1234567", "it has 7 bytes"},
      {"LfsPointer", "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 4\n", "Git LFS pointer"},
      {"HugeHeader", "\xff\xff\xff\xff\xff\xff\xff\xff{}", "header has 18446744073709551615 bytes"},
      {"HeaderBeyondLimit", std::string("\x01\xe1\xf5\x05\0\0\0\0{}", 10), "at most 100000000 are allowed"},
      {"HeaderCutShort", files("{}").substr(0, 9), "truncated"},
      {"NoHeader", files(""), "not a JSON object"},
      {"NoObject", files("[]"), "not a JSON object"},
      {"BrokenJson", files(R"({"a":)"), "not valid JSON at byte"},
      {"TwoValues", files("{}{}"), "not valid JSON"},
      {"NulBehindHeader", files("{}\0\0"s), "NUL"},
      {"ByteOrderMark", files("\xef\xbb\xbf{}"), "not a JSON object"},
      {"BrokenUtf8", files("{" + entry("a\xff", "U8", "[0]", 0, 0) + "}"), "not valid JSON"},
      {"HalfASurrogate", files("{" + entry(R"(\ud800)", "U8", "[0]", 0, 0) + "}"), "not valid JSON"},
      {"EntryIsANumber", files(R"({"a":1})"), "entry 'a' is not a JSON object"},
      {"EntryIsAList", files(R"({"a":[]})"), "entry 'a' is not a JSON object"},
      {"MetadataNumber", files(R"({"__metadata__":{"a":1}})"), "__metadata__ must hold text only; 'a'"},
      {"MetadataNested", files(R"({"__metadata__":{"a":{}}})"), "__metadata__ must hold text only"},
      {"MetadataText2", files(R"({"__metadata__":"a"})"), "not a JSON object"},
      {"NullEntry", files(R"({"a":null})"), "entry 'a' is not a JSON object"},
      {"NoDtype", files(R"({"a":{"shape":[0],"data_offsets":[0,0]}})"), "tensor 'a' has no dtype"},
      {"NoShape", files(R"({"a":{"dtype":"U8","data_offsets":[0,0]}})"), "tensor 'a' has no shape"},
      {"NoOffsets", files(R"({"a":{"dtype":"U8","shape":[0]}})"), "tensor 'a' has no data_offsets"},
      {"OldOffsets", files(R"({"a":{"dtype":"U8","shape":[0],"offsets":[0,0]}})"), "tensor 'a' has no data_offsets"},
      {"LowerCaseDtype", files("{" + entry("a", "f32", "[0]", 0, 0) + "}"), "unknown dtype 'f32'"},
      {"DtypeNumber", files(R"({"a":{"dtype":1,"shape":[0],"data_offsets":[0,0]}})"),
       "dtype of tensor 'a' must be text"},
      {"NegativeShape", files("{" + entry("a", "U8", "[-1]", 0, 0) + "}"),
       "shape of tensor 'a' must be a list of non-negative integers"},
      {"FractionalShape", files("{" + entry("a", "U8", "[1.0]", 0, 1) + "}", 1), "shape of tensor 'a' must be a list"},
      {"ShapeNumber", files("{" + entry("a", "U8", "1", 0, 1) + "}", 1), "shape of tensor 'a' must be a list"},
      {"ShapeNested", files("{" + entry("a", "U8", "[[1]]", 0, 1) + "}", 1), "shape of tensor 'a' must be a list"},
      {"ShapeOf64Bits", files("{" + entry("a", "U8", "[18446744073709551615]", 0, 0) + "}"), "more than 63 bits"},
      {"ShapeBeyond64Bits", files("{" + entry("a", "U8", "[99999999999999999999]", 0, 0) + "}"), "must be a list"},
      {"ProductOverflows", files("{" + entry("a", "U8", "[4294967296,4294967296]", 0, 0) + "}"),
       "too many bytes or half a byte"},
      {"ProductOverflowsBesideZero", files("{" + entry("a", "U8", "[0,4294967296,4294967296]", 0, 0) + "}"),
       "too many bytes"},
      {"BytesOverflow", files("{" + entry("a", "F64", "[2305843009213693952]", 0, 0) + "}"),
       "too many bytes or half a byte"},
      {"HalfAByte", files("{" + entry("a", "F4", "[3]", 0, 1) + "}", 1), "too many bytes or half a byte"},
      {"OneOffset", files(R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0]}})"), "must be 2 numbers, not 1"},
      {"ThreeOffsets", files(R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0,0]}})"), "must be 2 numbers, not 3"},
      {"NegativeOffset", files("{" + entry("a", "U8", "[1]", -1, 0) + "}"),
       "data_offsets of tensor 'a' must be a list"},
      {"EndBeforeBegin", files("{" + entry("a", "U8", "[1]", 2, 1) + "}", 2), "begins at byte 2 and ends at 1"},
      {"BeyondTheFile", files("{" + entry("a", "U8", "[9]", 0, 9) + "}", 8),
       "ends at byte 9 of the data, but the file has only 8"},
      {"TooFewBytes", files("{" + entry("a", "F32", "[2]", 0, 7) + "}", 7), "needs 8 bytes, but has 7"},
      {"TooManyBytes", files("{" + entry("a", "F32", "[]", 0, 8) + "}", 8),
       "of shape [] and dtype F32 needs 4 bytes, but has 8"},
      {"BytesInEmpty", files("{" + entry("a", "F32", "[0]", 0, 4) + "}", 4), "needs 0 bytes, but has 4"},
      {"HoleAtTheStart", files("{" + entry("a", "U8", "[1]", 1, 2) + "}", 2),
       "'a' begins at byte 1 of the data, but the previous one ends at 0"},
      {"Hole", files("{" + entry("a", "U8", "[1]", 0, 1) + "," + entry("b", "U8", "[1]", 2, 3) + "}", 3),
       "'b' begins at byte 2"},
      {"Overlap", files("{" + entry("a", "U8", "[2]", 0, 2) + "," + entry("b", "U8", "[2]", 1, 3) + "}", 3),
       "'b' begins at byte 1"},
      {"Alias", files("{" + entry("a", "U8", "[2]", 0, 2) + "," + entry("b", "U8", "[2]", 0, 2) + "}", 2),
       "begins at byte 0"},
      {"TrailingBytes", files("{" + entry("a", "U8", "[2]", 0, 2) + "}", 3), "end at byte 2 of the data, but it has 3"},
      {"SameNameTwice", files("{" + entry("a", "U8", "[1]", 0, 1) + "," + entry("a", "U8", "[1]", 1, 2) + "}", 2),
       "has 'a' twice"},
      {"DeepNesting", files(R"({"a":{"x":)" + std::string(1'000'000, '[')), "nested more than 4 deep"},
      {"LineBreakInName", files("{" + entry(R"(a\nb)", "U8", "[1]", 0, 2) + "}", 2), "tensor 'a?b' of shape"},
  };
  return kCases;
}

class SafetensorsRules : public ::testing::TestWithParam<Case> {};

TEST_P(SafetensorsRules, AreEnforced) {
  TempFolder folder;
  const std::filesystem::path path = folder / "x.safetensors";
  write_text(path, GetParam().bytes);
  if (GetParam().complaint.empty()) {
    EXPECT_NO_THROW(SafetensorsFile{path});
    return;
  }
  const std::string message = input_error_of([&] { SafetensorsFile{path}; });
  EXPECT_NE(message.find(GetParam().complaint), std::string::npos) << message;
  EXPECT_NE(message.find(path.string()), std::string::npos) << message;
  EXPECT_LE(std::count(message.begin(), message.end(), '\n'), 5) << message;
}

INSTANTIATE_TEST_SUITE_P(Header, SafetensorsRules, ::testing::ValuesIn(cases()),
                         [](const auto& info) { return info.param.name; });

TEST(SafetensorsFile, ReadsFlatRanges) {
  TempFolder folder;
  write_text(folder / "x", file_bytes("{" + entry("a", "I16", "[2,3]", 0, 12) + "}", "\0\0\1\0\2\0\3\0\4\0\5\0"s));
  const SafetensorsFile file(folder / "x");
  const at::Tensor part = file.read("a", 2, 5);
  ASSERT_EQ(part.sizes(), at::IntArrayRef({3}));
  for (int16_t i = 0; i < 3; ++i) EXPECT_EQ(part.const_data_ptr<int16_t>()[i], i + 2);
  at::Tensor buffer = at::empty({2, 2}, at::kShort);
  file.read_into("a", 1, buffer);
  for (int16_t i = 0; i < 4; ++i) EXPECT_EQ(buffer.const_data_ptr<int16_t>()[i], i + 1);
  EXPECT_EQ(file.read("a", 6, 6).numel(), 0);
  EXPECT_THROW(file.read("a", 4, 7), InternalError);
  EXPECT_THROW(file.read("a", -1, 2), InternalError);
  EXPECT_THROW(file.read_into("a", 0, at::empty({2}, at::kInt)), InternalError);
}

TEST(SafetensorsFile, TensorsOutliveTheFileObject) {
  TempFolder folder;
  write_text(folder / "x", files("{" + entry("a", "U8", "[2]", 0, 2) + "}", 2));
  const at::Tensor tensor = SafetensorsFile(folder / "x").tensor("a");
  EXPECT_EQ(tensor.const_data_ptr<uint8_t>()[1], 1);
}

TEST(SafetensorsFile, ReadsUnalignedTensors) {
  TempFolder folder;
  write_text(folder / "x",
             file_bytes("{" + entry("a", "U8", "[1]", 0, 1) + "," + entry("b", "F32", "[1,1]", 1, 5) + "}",
                        "\0\0\0\x80\x3f"s));
  const at::Tensor tensor = SafetensorsFile(folder / "x").tensor("b");
  EXPECT_EQ(tensor.dim(), 2);
  EXPECT_EQ(tensor.const_data_ptr<float>()[0], 1.0F);
}

TEST(SafetensorsFile, NamesMissingTensorsAndFiles) {
  TempFolder folder;
  write_text(folder / "x", files("{" + entry("encoder.weight", "U8", "[2]", 0, 2) + "}", 2));
  const SafetensorsFile file(folder / "x");
  EXPECT_EQ(file.find("encoder.weigth"), nullptr);
  EXPECT_NE(input_error_of([&] { file.info("encoder.weigth"); }).find("did you mean 'encoder.weight'?"),
            std::string::npos);
  EXPECT_NE(input_error_of([&] { SafetensorsFile(folder / "none"); }).find("No such file"), std::string::npos);
  EXPECT_NE(input_error_of([&] { SafetensorsFile(folder.path()); }).find("it is a folder"), std::string::npos);
}

TEST(SafetensorsFile, RefusesInvalidValuesAndDtypes) {
  TempFolder folder;
  write_text(folder / "x",
             file_bytes("{" + entry("a", "BOOL", "[2]", 0, 2) + "," + entry("b", "F4", "[2]", 2, 3) + "}", "\1\2\3"s));
  const SafetensorsFile file(folder / "x");
  EXPECT_NE(input_error_of([&] { file.tensor("a"); }).find("holds the byte 2"), std::string::npos);
  EXPECT_NE(input_error_of([&] { file.read("a", 0, 2); }).find("holds the byte 2"), std::string::npos);
  EXPECT_NE(input_error_of([&] { file.tensor("b"); }).find("F4"), std::string::npos);
}

TEST(SafetensorsFile, DetectsTruncationWhileOpen) {
  TempFolder folder;
  write_text(folder / "x", files("{" + entry("a", "U8", "[9000]", 0, 9000) + "}", 9000));
  const SafetensorsFile file(folder / "x");
  std::filesystem::resize_file(folder / "x", 100);
  EXPECT_NE(input_error_of([&] { file.tensor("a"); }).find("now has 100"), std::string::npos);
  EXPECT_NE(input_error_of([&] { file.read("a", 0, 9000); }).find("now has 100"), std::string::npos);
}

}  // namespace
}  // namespace trainer::tensorfile
