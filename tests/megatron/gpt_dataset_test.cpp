#include "data/megatron/gpt_dataset.h"

#include "data/megatron/indexed_writer.h"
#include "tests/data/support.h"
#include "tests/megatron/golden.h"

namespace trainer::data {
namespace {

constexpr int32_t kEod = 5, kPad = 3;  // of make_megatron.py

config::MegatronDataConfig config_of(const nlohmann::json& settings) {
  return {.sequence_length = settings.value("sequence_length", 16),
          .split = settings.value("split", "1,0,0"),
          .eod_mask_loss = settings.value("eod_mask_loss", false),
          .reset_position_ids = settings.value("reset_position_ids", false),
          .reset_attention_mask = settings.value("reset_attention_mask", false)};
}

/// Megatron leaves a label of 0 where the loss mask is 0.
void expect_sample(const GptSample& sample, const nlohmann::json& expected) {
  EXPECT_EQ(sample.tokens, expected["tokens"].get<std::vector<int32_t>>());
  auto labels = expected["labels"].get<std::vector<int32_t>>();
  for (size_t i = 0; i < labels.size(); ++i) {
    if (expected["learnt"][i] == 0) labels[i] = -100;
  }
  EXPECT_EQ(sample.labels, labels);
  EXPECT_EQ(sample.starts, expected["starts"].get<std::vector<int32_t>>());
  std::vector<int32_t> positions(sample.tokens.size());
  size_t document = 0;
  for (size_t i = 0; i < positions.size(); ++i) {
    if (document + 1 < sample.starts.size() && static_cast<size_t>(sample.starts[document + 1]) == i) ++document;
    positions[i] = static_cast<int32_t>(i) - sample.starts[document];
  }
  EXPECT_EQ(positions, expected["positions"].get<std::vector<int32_t>>());
}

TEST(GptDataset, SamplesEqualMegatrons) {
  const std::map<std::string, Split> splits{
      {"train", Split::kTrain}, {"valid", Split::kValidation}, {"test", Split::kTest}};
  for (const auto& expected : golden("indices")) {
    SCOPED_TRACE(expected["name"]);
    const auto& settings = expected["settings"];
    const config::MegatronDataConfig config = config_of(settings);
    GptRequest request{.blend = {{golden_path(expected["path"])}, {}},
                       .split = splits.at(expected["part"]),
                       .seed = settings.value("random_seed", int64_t{1234}),
                       .drop_last_partial = settings.value("drop_last_partial_validation_sequence", true)};
    if (!expected["samples"].is_null()) request.samples = expected["samples"].get<int64_t>();
    GptDataset dataset(request, {.config = config, .eod_id = kEod, .pad_id = kPad, .vocabulary = 70000});
    const auto order = expected["shuffle_index"].get<std::vector<int64_t>>();
    ASSERT_EQ(dataset.size(), static_cast<int64_t>(order.size()));
    for (size_t k = 0; k < expected["shown"].size(); ++k) {
      expect_sample(dataset.sample(static_cast<int64_t>(k)), expected["shown"][k]);
    }
    expect_sample(dataset.sample(std::max_element(order.begin(), order.end()) - order.begin()), expected["last"]);
  }
}

TEST(GptDataset, BlendsEqualMegatrons) {
  for (const auto& expected : golden("blends")) {
    SCOPED_TRACE(expected["name"]);
    const config::MegatronDataConfig config = config_of(expected["settings"]);
    GptRequest request{.blend = parse_blend(expected["words"]), .seed = 1234};
    for (std::string& prefix : request.blend.prefixes) prefix = golden_path(prefix);
    if (!expected["size"].is_null()) request.samples = expected["size"].get<int64_t>();
    GptDataset dataset(request, {.config = config, .eod_id = kEod, .pad_id = kPad});
    ASSERT_EQ(dataset.size(), expected["length"].get<int64_t>());
    expect_sample(dataset.sample(0), expected["shown"][0]);
    expect_sample(dataset.sample(dataset.size() - 1), expected["shown"][1]);
    if (!expected.contains("dataset")) continue;
    ASSERT_NE(dataset.draws(), nullptr);
    EXPECT_EQ(dataset.draws()->corpus, expected["dataset"].get<std::vector<int16_t>>());
    EXPECT_EQ(dataset.draws()->sample, expected["sample"].get<std::vector<int64_t>>());
  }
}

TEST(Blend, DrawsManyCorporaAsMegatronDoes) {
  for (const auto& expected : golden("picks")) {
    const std::vector<double> shares = normalized(expected["weights"].get<std::vector<double>>());
    EXPECT_EQ(shares, expected["normalised"].get<std::vector<double>>());
    const auto corpora = expected["dataset"].get<std::vector<int16_t>>();
    EXPECT_EQ(draw_by_weight(shares, static_cast<int64_t>(corpora.size())).corpus, corpora);
    const auto sizes = expected["sizes"].get<std::vector<int64_t>>();
    EXPECT_EQ(draw_all(sizes).corpus, expected["all_dataset"].get<std::vector<int16_t>>());
  }
}

TEST(Blend, ParsesMegatronsLists) {
  using Words = std::vector<std::string>;
  Blend blend = parse_blend({"0.3", " a ", "7e-1", "b/c"});
  EXPECT_EQ(blend.prefixes, (Words{"a", "b/c"}));
  EXPECT_EQ(blend.weights, (std::vector<double>{0.3, 0.7}));
  EXPECT_EQ(parse_blend({"a"}).prefixes, Words{"a"});
  EXPECT_EQ(parse_blend({"a", "b"}).prefixes, (Words{"a", "b"}));
  EXPECT_EQ(parse_blend({"1", "2", "3"}).prefixes, (Words{"1", "2", "3"}));
  EXPECT_TRUE(parse_blend({"1", "2", "3"}).weights.empty());
  contains(error_of<ConfigError>([] { parse_blend({"1", "a", "b", "c"}); }), "1 of 2 weights are numbers");
  contains(error_of<ConfigError>([] { parse_blend({"1", "a", "0", "b"}); }), "the weight is 0");
  contains(error_of<ConfigError>([] { parse_blend({"nan", "a"}); }), "the weight is nan");
}

TEST(GptDataset, RejectsInvalidRequests) {
  config::MegatronDataConfig config{.sequence_length = 16, .split = "1,0,0"};
  const GptSampleRules rules{.config = config};
  auto failure = [&](const GptRequest& request) { return error_of<Error>([&] { GptDataset(request, rules); }); };
  const std::string a = golden_path("a"), b = golden_path("b");
  contains(failure({}), "names no corpus");
  contains(failure({.blend = {{a, b}, {1, 2}}}), "set training.max_steps");
  contains(failure({.blend = {{a, b}, {1}}, .samples = 5}), "1 weights for 2 corpora");
  contains(failure({.blend = {{a}, {}}, .split = Split::kTest}), "leaves no sequences for test");
  contains(failure({.blend = {{a + "x"}, {}}}), "ax.bin: no such file");
  config.sequence_length = 600;
  contains(failure({.blend = {{a, golden_path("c")}, {}}}), "c: not one sample of 600 tokens");
}

TEST(GptDataset, RejectsATokenOutsideTheVocabulary) {
  TempFolder folder;
  IndexedWriter writer((folder / "x").string(), 100);
  writer.add_document(std::vector<int32_t>{1, 2, 99, 4});
  writer.publish();
  const config::MegatronDataConfig config{.sequence_length = 3, .split = "1"};
  GptDataset dataset({.blend = {{(folder / "x.bin").string()}, {}}}, {.config = config, .vocabulary = 99});
  contains(error_of<InputError>([&] { dataset.sample(0); }),
           "x.bin: token 2 of sequence 0 is 99, not an id in [0, 99)");
}

}  // namespace
}  // namespace trainer::data
