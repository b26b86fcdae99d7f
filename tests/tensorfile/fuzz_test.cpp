// Thousands of damaged files, the same in every run: each is read, or refused with an InputError.
#include <random>

#include <gtest/gtest.h>

#include "engine/base/files.h"
#include "engine/tensorfile/tensor_folder.h"
#include "tests/support/source_dir.h"
#include "tests/tensorfile/file_maker.h"

namespace trainer::tensorfile {
namespace {

/// Damages bytes the way disks, downloads and attackers do.
class Damage {
 public:
  explicit Damage(std::vector<std::string> tokens) : tokens_(std::move(tokens)) {}

  std::string apply(std::string bytes) {
    for (size_t count = 1 + below(4); count > 0; --count) damage(bytes);
    return bytes;
  }

 private:
  size_t below(size_t limit) { return limit == 0 ? 0 : random_() % limit; }

  void damage(std::string& bytes) {
    const size_t at = below(bytes.size());
    switch (below(6)) {
      case 0:
        if (!bytes.empty()) bytes[at] = static_cast<char>(random_());
        break;
      case 1:
        if (!bytes.empty()) bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(8)));
        break;
      case 2:
        bytes.resize(at);
        break;
      case 3:
        bytes.erase(at, below(16));
        break;
      case 4:
        bytes.insert(at, bytes.substr(below(bytes.size() + 1), below(64)));
        break;
      case 5:
        bytes.replace(at, below(8), tokens_[below(tokens_.size())]);
        break;
    }
  }

  std::mt19937 random_{1};
  std::vector<std::string> tokens_;
};

/// Returns 1 when the file is refused; otherwise reads all of it and returns 0.
int refused(const std::filesystem::path& path) {
  try {
    const SafetensorsFile file(path);
    for (const TensorInfo& info : file.tensors()) {
      if (info.dtype->type == at::ScalarType::Undefined) continue;
      const at::Tensor tensor = file.tensor(info.name);
      volatile unsigned sum = 0;
      const auto* bytes = static_cast<const unsigned char*>(tensor.const_data_ptr());
      for (size_t i = 0; i < tensor.nbytes(); ++i) sum = sum + bytes[i];
      EXPECT_EQ(file.read(info.name, 0, info.numel()).numel(), tensor.numel());
    }
    return 0;
  } catch (const InputError&) {
    return 1;
  }
}

TEST(Fuzz, ReadsOrRefusesDamagedFiles) {
  TempFolder folder;
  const std::string whole = read_file(source_dir() + "/tests/golden/tensorfile/all_dtypes.safetensors");
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, whole.data(), 8);
  const std::string header = whole.substr(8, header_bytes), data = whole.substr(8 + header_bytes);
  Damage damage({"-1",
                 "0",
                 "18446744073709551615",
                 "9223372036854775807",
                 "1e999",
                 "null",
                 "{}",
                 "[]",
                 "[",
                 "}",
                 "\"",
                 "\"F64\"",
                 "\"F4\"",
                 "\"shape\":",
                 "\"data_offsets\":[0,0]",
                 "\\u0000",
                 "\\ud800",
                 std::string(1, '\0'),
                 "[0,4294967296,4294967296]",
                 "\"__metadata__\":",
                 "\xff"});
  constexpr int kRounds = 6000;
  int count = 0;
  for (int round = 0; round < kRounds; ++round) {
    // Half of them keep a matching header size, so that the damage gets past the first check.
    const bool fitting = round % 2 == 0;
    write_text(folder / "x", fitting ? file_bytes(damage.apply(header), data) : damage.apply(whole));
    count += refused(folder / "x");
  }
  EXPECT_GT(count, kRounds / 2);
  EXPECT_LT(count, kRounds);  // some damage only changes values
}

TEST(Fuzz, ReadsOrRefusesDamagedIndexes) {
  TempFolder folder;
  write_text(folder / "x.safetensors", file_bytes(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", "1"));
  Damage damage({"..", "/", "null", "{", "[", "-1", "\"a\":", "\"weight_map\":", "\xff", std::string(64, '[')});
  constexpr int kRounds = 2000;
  int count = 0;
  for (int round = 0; round < kRounds; ++round) {
    write_text(folder / "model.safetensors.index.json",
               damage.apply(R"({"metadata":{"total_size":1},"weight_map":{"a":"x.safetensors"}})"));
    try {
      TensorFolder{folder.path()};
    } catch (const InputError&) {
      ++count;
    }
  }
  EXPECT_GT(count, kRounds / 2);
  EXPECT_LT(count, kRounds);
}

}  // namespace
}  // namespace trainer::tensorfile
