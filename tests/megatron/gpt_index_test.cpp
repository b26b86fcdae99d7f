#include "data/megatron/gpt_index.h"

#include "data/megatron/indexed_file.h"
#include "data/megatron/indexed_writer.h"
#include "data/megatron/numpy_random.h"
#include "tests/data/support.h"
#include "tests/megatron/golden.h"

namespace trainer::data {
namespace {

TEST(NumpyRandom, ShufflesAsNumpyDoes) {
  for (const auto& expected : golden("shuffles")) {
    NumpyRandom random(expected["seed"].get<uint32_t>());
    for (const char* name : {"first", "second"}) {
      std::vector<uint32_t> values(expected[name].size());
      for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<uint32_t>(i);
      random.shuffle(values);
      EXPECT_EQ(values, expected[name].get<std::vector<uint32_t>>()) << expected["seed"];
    }
  }
}

TEST(SplitRange, EqualsMegatrons) {
  for (const auto& expected : golden("splits")) {
    for (int split = 0; split < 3; ++split) {
      const auto& ranges = expected["ranges"][static_cast<size_t>(split)];
      for (size_t i = 0; i < expected["counts"].size(); ++i) {
        auto range = split_range(expected["split"], static_cast<Split>(split), expected["counts"][i]);
        ASSERT_EQ(range.has_value(), !ranges.is_null()) << expected["split"];
        if (range) {
          EXPECT_EQ(*range, (SequenceRange{ranges[i][0], ranges[i][1]})) << expected["split"];
        }
      }
    }
  }
}

TEST(SplitRange, WholeCorpusIgnoresProportions) {
  EXPECT_EQ(split_range("0,1,0", Split::kWhole, 10), (SequenceRange{0, 10}));
}

TEST(SplitRange, RejectsInvalidSplits) {
  for (const char* text : {"", "0,0,0", "none", "1.2.3", "1,1,1,1", "."}) {
    contains(error_of<ConfigError>([&] { split_range(text, Split::kTrain, 10); }), "data.megatron.split: ");
  }
}

/// The request of a golden case.
GptIndexRequest request_of(const nlohmann::json& expected) {
  const auto& settings = expected["settings"];
  GptIndexRequest request;
  request.sequences = {expected["range"][0], expected["range"][1]};
  request.sequence_length = settings.value("sequence_length", 16);
  if (!expected["samples"].is_null()) request.samples = expected["samples"].get<int64_t>();
  request.seed = settings.value("random_seed", int64_t{1234});
  request.drop_last_partial = settings.value("drop_last_partial_validation_sequence", true);
  return request;
}

TEST(GptIndex, EqualsMegatrons) {
  for (const auto& expected : golden("indices")) {
    SCOPED_TRACE(expected["name"]);
    IndexedFile file(golden_path(expected["path"]));
    GptIndex index(file.index(), request_of(expected));
    EXPECT_EQ(index.sequence_order(), expected["document_index"].get<std::vector<uint32_t>>());
    EXPECT_EQ(index.sample_order(), expected["shuffle_index"].get<std::vector<uint32_t>>());
    std::vector<std::array<uint32_t, 2>> starts;
    for (GptIndex::Start start : index.starts()) starts.push_back({start.slot, start.offset});
    EXPECT_EQ(starts, (expected["sample_index"].get<std::vector<std::array<uint32_t, 2>>>()));
  }
}

TEST(GptIndex, RejectsInvalidRequests) {
  IndexedFile file(golden_path("a"));
  auto failure = [&](GptIndexRequest request) {
    return error_of<ConfigError>([&] { GptIndex(file.index(), request); });
  };
  const SequenceRange all{0, file.index().sequences()};
  contains(failure({.sequences = all, .sequence_length = 4, .seed = -1}), "seed: -1");
  contains(failure({.sequences = all, .sequence_length = 4, .seed = int64_t{1} << 32}), "seed: 4294967296");
  contains(failure({.sequences = all, .sequence_length = 0}), "sequence_length: 0");
  contains(failure({.sequences = all, .sequence_length = 4, .samples = int64_t{1} << 40}), "1099511627776 samples");
  contains(failure({.sequences = all, .sequence_length = INT32_MAX, .samples = 4000000000}), "exceed the limit of");
  GptIndexRequest none{.sequences = {5, 5}, .sequence_length = 4, .samples = 1};
  contains(error_of<InputError>([&] { GptIndex(file.index(), none); }), "no tokens");
  none.samples.reset();
  EXPECT_EQ(GptIndex(file.index(), none).size(), 0);
}

/// In corpus order, every sample begins with the last token of the previous one.
TEST(GptIndex, SamplesCoverTheEpochOnce) {
  TempFolder folder;
  const std::string prefix = (folder / "x").string();
  IndexedWriter writer(prefix, 100);
  int32_t next = 0;
  for (size_t length : {3u, 0u, 0u, 7u, 1u, 12u, 0u, 5u, 0u}) {
    std::vector<int32_t> tokens(length);
    for (int32_t& token : tokens) token = next++;
    writer.add_document(tokens);
  }
  writer.publish();
  IndexedFile file(prefix);
  for (int64_t length : {1, 2, 3, 5, 27, 28}) {
    for (bool drop : {true, false}) {
      GptIndexRequest request{{0, file.index().sequences()}, length, std::nullopt, 11, drop};
      GptIndex index(file.index(), request);
      std::vector<int64_t> lengths;
      std::map<uint32_t, std::vector<SamplePiece>> by_place;
      for (int64_t k = 0; k < index.size(); ++k) {
        by_place[index.sample_order()[static_cast<size_t>(k)]] = index.pieces(file.index(), k);
      }
      int64_t seen = 0;  // tokens of samples without the shared one
      for (const auto& [place, pieces] : by_place) {
        int64_t tokens = 0;
        for (const SamplePiece& piece : pieces) tokens += piece.length;
        if (place + 2 < index.starts().size() || drop) {
          EXPECT_EQ(tokens, length + 1);
        }
        seen += tokens - 1;
      }
      const int64_t labels = 28 - 1;
      EXPECT_EQ(seen, drop ? labels / length * length : labels) << length;
    }
  }
}

}  // namespace
}  // namespace trainer::data
