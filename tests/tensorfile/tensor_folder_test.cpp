#include "engine/tensorfile/tensor_folder.h"

#include <gtest/gtest.h>

#include "tests/tensorfile/file_maker.h"

namespace trainer::tensorfile {
namespace {

/// A file with one tensor of one byte.
std::string file_with(const std::string& name, char value) {
  return file_bytes(fmt::format(R"({{"{}":{{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}}})", name), {value});
}

struct ModelFolder : TempFolder {
  std::string complaint() const {
    const std::string message = input_error_of([&] { TensorFolder{path()}; });
    EXPECT_LE(std::count(message.begin(), message.end(), '\n'), 5) << message;
    return message;
  }
  void write_index(const std::string& text) const { write_text(*this / "model.safetensors.index.json", text); }
};

::testing::AssertionResult contains(const std::string& text, const std::string& part) {
  if (text.find(part) != std::string::npos) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "'" << part << "' is not in: " << text;
}

TEST(TensorFolder, OpensASingleFile) {
  ModelFolder folder;
  write_text(folder / "model.safetensors", file_with("a", 7));
  const TensorFolder weights(folder.path());
  EXPECT_EQ(weights.names(), std::vector<std::string>{"a"});
  ASSERT_NE(weights.find("a"), nullptr);
  EXPECT_EQ(weights.find("a")->tensor("a").const_data_ptr<uint8_t>()[0], 7);
  EXPECT_EQ(weights.find("b"), nullptr);
}

TEST(TensorFolder, OpensShards) {
  ModelFolder folder;
  write_text(folder / "model-00001-of-00002.safetensors", file_with("b", 1));
  write_text(folder / "model-00002-of-00002.safetensors", file_with("a", 2));
  folder.write_index(R"({"metadata":{"total_size":2},"weight_map":{
      "b":"model-00001-of-00002.safetensors","a":"model-00002-of-00002.safetensors"}})");
  const TensorFolder weights(folder.path());
  EXPECT_EQ(weights.names(), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(weights.find("a")->tensor("a").const_data_ptr<uint8_t>()[0], 2);
  EXPECT_EQ(weights.find("b")->tensor("b").const_data_ptr<uint8_t>()[0], 1);
}

TEST(TensorFolder, NamesAMissingShardAndAMissingTensor) {
  ModelFolder folder;
  folder.write_index(R"({"weight_map":{"a":"x.safetensors"}})");
  EXPECT_TRUE(contains(folder.complaint(), "x.safetensors is missing"));
  write_text(folder / "x.safetensors", file_with("b", 1));
  EXPECT_TRUE(contains(folder.complaint(), "x.safetensors has no tensor 'a'"));
}

TEST(TensorFolder, RefusesBrokenIndexes) {
  ModelFolder folder;
  write_text(folder / "x.safetensors", file_with("a", 1));
  const auto complaint_of = [&](const std::string& index) {
    folder.write_index(index);
    return folder.complaint();
  };
  EXPECT_TRUE(contains(complaint_of("{"), "it is not valid JSON at byte"));
  EXPECT_TRUE(contains(complaint_of("{}"), "no object weight_map"));
  EXPECT_TRUE(contains(complaint_of("[]"), "no object weight_map"));
  EXPECT_TRUE(contains(complaint_of(R"({"weight_map":[]})"), "no object weight_map"));
  EXPECT_TRUE(contains(complaint_of(R"({"weight_map":{"a":1}})"), "the file of tensor 'a' is not text"));
  EXPECT_TRUE(
      contains(complaint_of(R"({"weight_map":{"a":"x.safetensors","a":"x.safetensors"}})"), "'a' appears twice"));
  EXPECT_TRUE(contains(complaint_of(R"({"weight_map":{},"weight_map":{}})"), "'weight_map' appears twice"));
  EXPECT_TRUE(contains(complaint_of(R"({"x":)" + std::string(100'000, '[')), "nested too deeply"));
}

TEST(TensorFolder, NeverLeavesTheFolder) {
  ModelFolder folder;
  std::filesystem::create_directory(folder / "sub");
  write_text(folder / "sub/x.safetensors", file_with("a", 1));
  const std::string absolute = (folder / "sub/x.safetensors").string();
  for (const std::string& shard :
       {std::string("../x.safetensors"), std::string("sub/x.safetensors"), absolute, std::string(".."), std::string(""),
        std::string("/etc/passwd"), std::string("sub\\\\x.safetensors"), std::string("x\\u0000.safetensors")}) {
    folder.write_index(R"({"weight_map":{"a":")" + shard + R"("}})");
    EXPECT_TRUE(contains(folder.complaint(), "must be the name of a .safetensors file")) << shard;
  }
}

TEST(TensorFolder, ListsWhatTheFolderHasInstead) {
  ModelFolder folder;
  EXPECT_TRUE(contains(folder.complaint(), "no files at all"));
  write_text(folder / "config.json", "{}");
  EXPECT_TRUE(contains(folder.complaint(), "it has 'config.json'"));
  write_text(folder / "pytorch_model.bin", "x");
  EXPECT_TRUE(contains(folder.complaint(), "pickled weights only"));
  EXPECT_TRUE(contains(folder.complaint(), "save_pretrained"));
  EXPECT_TRUE(contains(input_error_of([&] { TensorFolder{folder / "none"}; }), "does not exist"));
  EXPECT_TRUE(contains(input_error_of([&] { TensorFolder{folder / "config.json"}; }), "is not a folder"));
  std::filesystem::create_symlink("nowhere", folder / "model.safetensors");
  EXPECT_TRUE(contains(folder.complaint(), "No such file"));
}

}  // namespace
}  // namespace trainer::tensorfile
