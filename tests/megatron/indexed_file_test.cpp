#include "data/megatron/indexed_file.h"

#include <limits>

#include "data/megatron/indexed_writer.h"
#include "tests/data/support.h"
#include "tests/megatron/golden.h"
#include "tests/support/source_dir.h"

namespace trainer::data {
namespace {

std::vector<int32_t> sequence_of(const IndexedFile& file, int64_t sequence) {
  std::vector<int32_t> tokens(static_cast<size_t>(file.index().length(sequence)));
  file.read(sequence, 0, tokens);
  return tokens;
}

TEST(IndexedFile, ReadsEveryTypeMegatronWrites) {
  for (const auto& expected : golden("types")) {
    SCOPED_TRACE(expected["name"]);
    IndexedFile file(golden_path("type_" + expected["name"].get<std::string>()));
    EXPECT_EQ(static_cast<int>(file.index().type()), expected["code"].get<int>());
    ASSERT_EQ(file.index().sequences(), static_cast<int64_t>(expected["sequences"].size()));
    for (int64_t i = 0; i < file.index().sequences(); ++i) {
      EXPECT_EQ(sequence_of(file, i), expected["sequences"][static_cast<size_t>(i)].get<std::vector<int32_t>>());
    }
  }
}

TEST(IndexedFile, AcceptsEitherFilesNameAndSequencesOfDocuments) {
  for (const char* ending : {"", ".bin", ".idx"}) {
    IndexedFile file(golden_path("c") + ending);
    EXPECT_EQ(file.prefix(), golden_path("c"));
    EXPECT_EQ(file.index().sequences(), 24);
    EXPECT_EQ(file.index().documents(), 12);
    EXPECT_EQ(file.index().document_start(11), 22);
    std::vector<int32_t> whole = sequence_of(file, 1), part(2);
    file.read(1, 3, part);
    EXPECT_EQ(part, (std::vector<int32_t>{whole[3], whole[4]}));
  }
}

/// bad_files.json: changes to corpus c, and the expected messages.
TEST(IndexedFile, RejectsMalformedFiles) {
  TempFolder folder;
  for (const auto& bad : nlohmann::json::parse(read_file(source_dir() + "/tests/megatron/bad_files.json"))) {
    SCOPED_TRACE(bad["name"]);
    for (const std::string ending : {"bin", "idx"}) {
      std::string bytes = read_file(golden_path("c." + ending));
      if (bad["file"] == ending) {
        if (bad.contains("cut_to")) bytes.resize(bad["cut_to"]);
        if (bad.contains("append")) bytes.append(bad["append"].get<size_t>(), 'x');
        if (bad.contains("bytes")) {
          const auto changed = bad["bytes"].get<std::vector<uint8_t>>();
          bytes.replace(bad["at"], changed.size(), reinterpret_cast<const char*>(changed.data()), changed.size());
        }
      }
      folder.write("c." + ending, bytes);
    }
    if (bad["says"].is_null()) {
      EXPECT_NO_THROW(IndexedFile((folder / "c").string()));
    } else {
      contains(error_of<InputError>([&] { IndexedFile((folder / "c").string()); }), bad["says"]);
    }
  }
}

TEST(IndexedFile, ReportsTheMissingFile) {
  TempFolder folder;
  const std::string prefix = (folder / "x").string();
  contains(error_of<InputError>([&] { IndexedFile file(prefix); }), "x.bin: no such file.\n");
  folder.write("x.bin", "");
  contains(error_of<InputError>([&] { IndexedFile file(prefix); }), "x.idx: no such file, but " + prefix);
  std::filesystem::create_directories(folder / "x.idx");
  contains(error_of<InputError>([&] { IndexedFile file(prefix); }), "x.idx: it is a folder");
}

TEST(IndexedFile, RejectsInvalidTokens) {
  TempFolder folder;
  auto failure = [&](TokenType type, auto token) {
    std::string index = read_file(golden_path("type_int64.idx")), bin(sizeof token * 2, '\0');
    std::memcpy(bin.data() + sizeof token, &token, sizeof token);
    index[17] = static_cast<char>(type);
    const int32_t lengths[] = {1, 1};
    const int64_t offsets[] = {0, sizeof token};
    std::memcpy(index.data() + 34, lengths, sizeof lengths);
    std::memcpy(index.data() + 42, offsets, sizeof offsets);
    folder.write("x.bin", bin);
    folder.write("x.idx", index);
    IndexedFile file((folder / "x").string());
    EXPECT_EQ(sequence_of(file, 0), std::vector<int32_t>{0});
    return error_of<InputError>([&] { sequence_of(file, 1); });
  };
  contains(failure(TokenType::kInt8, int8_t{-1}), "token 0 of sequence 1 is -1, not an id");
  contains(failure(TokenType::kInt32, int32_t{-7}), "is -7, not an id in [0, 2147483648)");
  contains(failure(TokenType::kInt64, int64_t{1} << 31), "is 2147483648, not an id");
  contains(failure(TokenType::kInt64, std::numeric_limits<int64_t>::max()), "is 9223372036854775807, not an id");
  contains(failure(TokenType::kFloat64, 1.5), "is 1.5, not an id");
  contains(failure(TokenType::kFloat64, 1e300), "is 1e+300, not an id");
  contains(failure(TokenType::kFloat32, std::numeric_limits<float>::quiet_NaN()), "nan, not an id");
}

TEST(IndexedWriter, WritesTheSameFilesAsMegatron) {
  TempFolder folder;
  for (const auto& [name, vocabulary] : {std::pair("a", 1000), std::pair("b", 70000)}) {
    IndexedFile original(golden_path(name));
    const std::string prefix = (folder / name).string();
    folder.write(std::string(name) + ".idx", "an older file");
    IndexedWriter writer(prefix, vocabulary);
    for (int64_t i = 0; i < original.index().sequences(); ++i) writer.add_document(sequence_of(original, i));
    EXPECT_EQ(writer.documents(), original.index().sequences());
    writer.publish();
    EXPECT_EQ(read_all(prefix + ".bin"), read_all(golden_path(name) + ".bin"));
    EXPECT_EQ(read_all(prefix + ".idx"), read_all(golden_path(name) + ".idx"));
  }
}

TEST(IndexedWriter, LeavesNothingUnlessPublished) {
  TempFolder folder;
  {
    IndexedWriter writer((folder / "x").string(), 10);
    writer.add_document(std::vector<int32_t>{1, 2, 3});
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.string()));
  contains(error_of<MachineError>([&] { IndexedWriter writer((folder / "no/x").string(), 10); }), "no/x.bin");
}

TEST(IndexedWriter, WritesManyTokensInParts) {
  TempFolder folder;
  const std::string prefix = (folder / "x").string();
  std::vector<int32_t> tokens(700'000);
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int32_t>(i * 7919 % 65500);
  IndexedWriter writer(prefix, 65500);  // from this size on, four bytes per token
  writer.add_document(tokens);
  writer.add_document({});
  writer.publish();
  IndexedFile file(prefix);
  EXPECT_EQ(file.index().type(), TokenType::kInt32);
  EXPECT_EQ(sequence_of(file, 0), tokens);
  EXPECT_TRUE(sequence_of(file, 1).empty());
}

}  // namespace
}  // namespace trainer::data
