#include "data/readers/idx.h"

#include <zlib.h>

#include "data/readers/byte_source.h"
#include "data/readers/mnist.h"
#include "tests/data/support.h"
#include "tests/support/source_dir.h"

namespace trainer::data {
namespace {

namespace fs = std::filesystem;

/// An IDX file of bytes.
std::string idx(const std::vector<uint32_t>& sizes, const std::string& values, char type = 0x08) {
  std::string bytes{'\0', '\0', type, static_cast<char>(sizes.size())};
  for (uint32_t size : sizes) {
    for (int shift : {24, 16, 8, 0}) bytes += static_cast<char>(size >> shift & 0xFF);
  }
  return bytes + values;
}

std::string gzip(const std::string& content) {
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 9, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string bytes(deflateBound(&stream, content.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(content.data()));
  stream.avail_in = static_cast<uInt>(content.size());
  stream.next_out = reinterpret_cast<Bytef*>(bytes.data());
  stream.avail_out = static_cast<uInt>(bytes.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  bytes.resize(stream.total_out);
  deflateEnd(&stream);
  return bytes;
}

const std::string kTwoPictures = idx({2, 1, 3}, "abcdef");
const std::string kTwoLabels = idx({2}, {7, 1});

TEST(Idx, ReadsEveryType) {
  for (auto [type, size] : {std::pair(0x08, 1), {0x09, 1}, {0x0B, 2}, {0x0C, 4}, {0x0D, 4}, {0x0E, 8}}) {
    const std::string bytes = idx({3, 2}, std::string(static_cast<size_t>(6 * size), 'v'), static_cast<char>(type));
    const IdxArray array = parse_idx(bytes, "f");
    EXPECT_EQ(static_cast<int>(array.type), type);
    EXPECT_EQ(array.sizes, (std::vector<int64_t>{3, 2}));
    EXPECT_EQ(array.values.size(), static_cast<size_t>(6 * size));
  }
  EXPECT_TRUE(parse_idx(idx({0, 5}, ""), "f").values.empty());
}

TEST(Idx, RejectsMalformedFiles) {
  auto failure = [](const std::string& bytes) { return error_of<InputError>([&] { parse_idx(bytes, "f"); }); };
  contains(failure(""), "f: not an IDX file");
  contains(failure("PNG."), "f: not an IDX file");
  contains(failure(idx({1}, "x", 0x0A)), "value type 0x0a");
  contains(failure(idx({}, "")), "the array has no dimensions");
  contains(failure(idx({1, 2, 3}, "").substr(0, 15)),
           "truncated: 15 bytes, but the header of 3 dimensions alone has 16");
  contains(failure(idx({2, 3}, "abcde")), "truncated: 17 bytes, but its header declares 18");
  contains(failure(idx({2, 3}, "abcdefg")), "extra bytes after its values: 19 bytes, but its header declares 18");
  const uint32_t most = 0xFFFFFFFF;
  contains(failure(idx({most, most, most, most}, "")), "more than 4294967296 bytes");
  contains(failure(idx({1u << 31, 1u << 31, 2, 1}, "", 0x0C)), "more than");
  contains(failure(idx(std::vector<uint32_t>(255, most), "")), "more than");
}

TEST(Idx, ReadsNoMoreThanTheHeaderDeclares) {
  auto read = [](const std::string& content) { return read_idx(*unpacked(bytes_of(content), "f"), "f"); };
  EXPECT_EQ(read(gzip(kTwoPictures)), kTwoPictures);
  const std::string large = idx({2000, 3000}, std::string(6'000'000, 'x'));
  EXPECT_EQ(read(gzip(large)), large);
  EXPECT_EQ(read(gzip(idx({2000, 3000}, std::string(9'000'000, 'x')))).size(), large.size() + 1);
  contains(error_of<InputError>([&] { read(gzip(large).substr(0, 2000)); }), "f: the gzip data end too early");
  contains(error_of<InputError>([&] { read(gzip("no such file")); }), "f: not an IDX file");
}

TEST(Gzip, RefusesWhatUnpacksToMoreThanAnyText) {
  const std::string member = gzip(std::string(64 << 20, '\0'));
  std::string bomb;
  for (int i = 0; i < 20; ++i) bomb += member;
  const Bytes bytes = unpacked(bytes_of(bomb), "bomb.gz");
  std::string part(1 << 20, '\0');
  contains(error_of<BrokenBytes>([&] {
             while (bytes->read(part.data(), part.size()) > 0) continue;
           }),
           "over 300 times as many, which no text does");
}

TEST(Mnist, FindsAllNamesPlainAndGzip) {
  for (const std::string place : {"", "MNIST/raw/"}) {
    for (auto [images, labels] : {std::pair("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
                                  {"train-images.idx3-ubyte", "train-labels.idx1-ubyte"}}) {
      for (const std::string ending : {"", ".gz"}) {
        TempFolder folder;
        const bool plain = ending.empty();
        const std::string file = folder.write(place + images + ending, plain ? kTwoPictures : gzip(kTwoPictures));
        folder.write(place + labels + ending, plain ? kTwoLabels : gzip(kTwoLabels));
        for (const std::string& path : {folder.string(), file}) {
          const Images read = read_mnist(path, MnistPart::kTrain);
          EXPECT_EQ(read.count, 2);
          EXPECT_EQ(read.features, 3);
          EXPECT_EQ(read.pixels, (std::vector<uint8_t>{'a', 'b', 'c', 'd', 'e', 'f'}));
          EXPECT_EQ(read.labels, (std::vector<int32_t>{7, 1}));
        }
      }
    }
  }
}

TEST(Mnist, ReadsARange) {
  TempFolder folder;
  const std::string path = folder.write("t10k-images-idx3-ubyte", kTwoPictures);
  folder.write("t10k-labels-idx1-ubyte.gz", gzip(kTwoLabels));
  const Images second = read_mnist(path, MnistPart::kTrain, 1, 9);
  EXPECT_EQ(second.pixels, (std::vector<uint8_t>{'d', 'e', 'f'}));
  EXPECT_EQ(second.labels, std::vector<int32_t>{1});
  EXPECT_EQ(read_mnist(folder.string(), MnistPart::kTest, 0, 1).labels, std::vector<int32_t>{7});
}

TEST(Mnist, ReportsThePathsOfMissingFiles) {
  TempFolder folder;
  auto failure = [&](const std::string& path) {
    return error_of<InputError>([&] { read_mnist(path, MnistPart::kTrain); });
  };
  std::string message = failure(folder.string());
  contains(message, "\n  " + (folder / "train-images-idx3-ubyte").string() + " (or train-images.idx3-ubyte)");
  contains(message, "\n  " + (folder / "train-labels-idx1-ubyte").string() + " (or train-labels.idx1-ubyte)");
  const std::string test = folder.write("t10k-images-idx3-ubyte.gz", gzip(kTwoPictures));
  contains(failure(folder.string()), test + " exists");
  contains(failure(test), "missing file: " + (folder / "t10k-labels-idx1-ubyte.gz").string());
  contains(failure(folder.write("pictures", kTwoPictures)), "must contain \"images\" and \"idx3\"");
  contains(failure((folder / "nowhere").string()), (folder / "nowhere/train-images-idx3-ubyte").string());
}

TEST(Mnist, RejectsAnInvalidPair) {
  auto failure = [](const std::string& images, const std::string& labels) {
    TempFolder folder;
    folder.write("train-images-idx3-ubyte", images);
    folder.write("train-labels-idx1-ubyte", labels);
    return error_of<InputError>([&] { read_mnist(folder.string(), MnistPart::kTrain); });
  };
  contains(failure(kTwoPictures, idx({3}, "abc")), "has 2 images, but ");
  contains(failure(kTwoPictures, idx({3}, "abc")), "has 3 labels");
  contains(failure(kTwoLabels, kTwoLabels), "2 values of type 0x08 in 1 dimensions; images must be bytes (0x08) in 3");
  contains(failure(kTwoPictures, kTwoPictures), "labels must be bytes (0x08) in 1");
  contains(failure(idx({2, 1, 3}, std::string(24, 'x'), 0x0D), kTwoLabels), "type 0x0d");
  contains(failure(idx({0, 0xFFFFFFFF, 0xFFFFFFFF}, ""), idx({0}, "")), "nothing to learn from");
  contains(failure(gzip(kTwoPictures + "x"), kTwoLabels), "extra bytes after its values");
  contains(failure(gzip(kTwoPictures).substr(0, 20), kTwoLabels), "end too early");
}

TEST(Mnist, ReadsTenThousandImages) {
  const fs::path folder = fs::path(source_dir()) / "../shared/data/mnist10k";
  if (!fs::exists(folder)) GTEST_SKIP() << folder << " does not exist";
  const Images images = read_mnist(folder.string(), MnistPart::kTest);
  EXPECT_EQ(images.count, 10000);
  EXPECT_EQ(images.features, 784);
  int64_t sum = 0;
  std::vector<int> counts(10);
  for (uint8_t pixel : images.pixels) sum += pixel;
  for (int32_t label : images.labels) ++counts.at(static_cast<size_t>(label));
  EXPECT_EQ(sum, 264923200);
  EXPECT_EQ(counts, (std::vector<int>{980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009}));
}

}  // namespace
}  // namespace trainer::data
