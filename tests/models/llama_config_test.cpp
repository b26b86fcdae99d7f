// config.json of the LLaMA family: names, defaults, refusals.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "engine/base/errors.h"
#include "models/llama/config.h"
#include "models/registry.h"

namespace trainer::testing {
namespace {

using models::llama::Dialect;

models::BuildRequest request_for(const std::string& json, bool strict = false) {
  models::BuildRequest request;
  request.config_json = json;
  request.origin = "config.json";
  request.strict = strict;
  request.task = models::Task::kCausalLm;
  return request;
}

models::llama::Config parse(const std::string& json) {
  return models::llama::parse_config(request_for(json), Dialect{});
}

/// The error of building the model, or "".
std::string complaint(const std::string& json, bool strict = false) {
  try {
    models::build_model(request_for(json, strict));
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(LlamaConfig, MissingKeysHaveTransformersDefaults) {
  const auto c = parse(R"({"model_type": "llama"})");
  EXPECT_EQ(c.kv_heads, 32);
  EXPECT_EQ(c.head_dim, 128);
  EXPECT_EQ(c.max_positions, 2048);
  EXPECT_EQ(c.eos, std::vector<int64_t>{2});
  EXPECT_EQ(c.rope.full.theta, 10000);
  EXPECT_FALSE(c.tied_head);
}

TEST(LlamaConfig, AcceptsNullAndListsOfTokens) {
  EXPECT_TRUE(parse(R"({"eos_token_id": null})").eos.empty());
  EXPECT_EQ(parse(R"({"eos_token_id": [2, 7]})").eos, (std::vector<int64_t>{2, 7}));
  EXPECT_TRUE(parse(R"({"pad_token_id": -1})").pad.empty());
}

TEST(LlamaConfig, ReadsRopeByOldAndNewNames) {
  const std::string factors = R"("factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                                 "original_max_position_embeddings": 8192)";
  for (const std::string& json :
       {R"({"rope_theta": 5e5, "rope_scaling": {"type": "llama3", )" + factors + "}}",
        R"({"rope_theta": 5e5, "rope_scaling": {"rope_type": "llama3", )" + factors + "}}",
        R"({"rope_parameters": {"rope_theta": 5e5, "rope_type": "llama3", )" + factors + "}}"}) {
    const auto rope = parse(json).rope.full;
    EXPECT_EQ(rope.kind, nn::RopeOptions::kLlama3) << json;
    EXPECT_EQ(rope.theta, 5e5) << json;
    EXPECT_EQ(rope.factor, 8) << json;
    EXPECT_EQ(rope.original_positions, 8192) << json;
  }
}

TEST(LlamaConfig, RopeScalingSetsTheMaximumLength) {
  const auto reach = [](const std::string& scaling, int64_t positions) {
    return parse(fmt::format(R"({{"max_position_embeddings": {}, "rope_scaling": {}}})", positions, scaling))
        .rope.full.reach();
  };
  EXPECT_EQ(reach("null", 4096), 4096);
  EXPECT_EQ(reach(R"({"type": "linear", "factor": 4.0})", 4096), 16384);  // Vicuna 16k
  EXPECT_EQ(reach(R"({"type": "yarn", "factor": 4.0})", 32768), 131072);  // Qwen2.5, according to its model card
  EXPECT_EQ(reach(R"({"type": "yarn", "factor": 40, "original_max_position_embeddings": 4096})", 163840), 163840);
  EXPECT_EQ(reach(R"({"type": "dynamic", "factor": 2.0})", 32768), 0);  // unlimited
  EXPECT_EQ(reach(R"({"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                      "original_max_position_embeddings": 8192})",
                  131072),
            131072);
}

TEST(LlamaConfig, UnknownRopeIsRefusedByName) {
  const auto text = complaint(R"({"model_type": "llama", "rope_scaling": {"type": "su", "factor": 2}})");
  EXPECT_TRUE(has(text, "rope_scaling.type")) << text;
  EXPECT_TRUE(has(text, "longrope")) << text;
  EXPECT_TRUE(has(text, "\"su\"")) << text;
}

TEST(LlamaConfig, InvalidValuesAreNamed) {
  struct Case {
    const char *json, *says;
  };
  for (const Case& c :
       {Case{R"({"model_type": "llama", "num_attention_heads": 3, "hidden_size": 10})", "hidden_size"},
        Case{R"({"model_type": "mistral", "num_attention_heads": 5, "hidden_size": 10})", "5 and 8"},
        Case{R"({"model_type": "llama", "hidden_act": "mish"})", "hidden_act"},
        Case{R"({"model_type": "llama", "head_dim": 7})", "even"},
        Case{R"({"model_type": "llama", "rope_scaling": {"type": "linear"}})", "factor"},
        Case{R"({"model_type": "llama", "rope_scaling": {"type": "longrope", "short_factor": [1]}})", "64 numbers"},
        Case{R"({"model_type": "llama", "partial_rotary_factor": 0.5})", "partial_rotary_factor"},
        Case{R"({"model_type": "qwen3", "num_hidden_layers": 1, "layer_types": ["sliding_attention"]})",
             "use_sliding_window"}})
    EXPECT_TRUE(has(complaint(c.json), c.says)) << c.json << "\n" << complaint(c.json);
}

TEST(LlamaConfig, KeysOfOtherFamiliesAreUnknownWhenStrict) {
  EXPECT_EQ(complaint(R"({"model_type": "llama", "use_sliding_window": true})"), "");
  EXPECT_TRUE(has(complaint(R"({"model_type": "llama", "use_sliding_window": true})", true), "LLaMA's config"));
  EXPECT_TRUE(has(complaint(R"({"model_type": "qwen2", "hiden_size": 64})", true), "did you mean 'hidden_size'"));
}

TEST(LlamaConfig, WindowsByLayer) {
  Dialect dialect;
  dialect.window = Dialect::Window::kByLayer;
  const auto parsed = [&](const std::string& json) { return models::llama::parse_config(request_for(json), dialect); };
  EXPECT_EQ(parsed(R"({"num_hidden_layers": 3, "use_sliding_window": true, "max_window_layers": 2})").windowed,
            (std::vector<bool>{false, false, true}));
  EXPECT_EQ(parsed(R"({"num_hidden_layers": 3, "sliding_window": 8, "max_window_layers": 0})").windowed,
            (std::vector<bool>{false, false, false}));
}

TEST(LlamaConfig, AnExplicitNullIsNoneAndAMissingKeyTheFamilysOwn) {
  Dialect dialect;
  dialect.pad = {5};
  dialect.window = Dialect::Window::kWithoutRope;
  const auto parsed = [&](const std::string& json) { return models::llama::parse_config(request_for(json), dialect); };
  EXPECT_EQ(parsed("{}").pad, std::vector<int64_t>{5});
  EXPECT_EQ(parsed(R"({"pad_token_id": 7})").pad, std::vector<int64_t>{7});
  for (const char* none : {"null", "-1"})
    EXPECT_EQ(parsed(fmt::format(R"({{"pad_token_id": {}}})", none)).pad, std::vector<int64_t>{}) << none;
  EXPECT_EQ(parsed(R"({"num_hidden_layers": 2, "no_rope_layer_interval": 2, "no_rope_layers": null})").rotated,
            (std::vector<bool>{true, false}));
}

TEST(LlamaModel, TiedHeadIsUntiedIfTheFolderHasTwoWeights) {
  auto request = request_for(R"({"model_type": "llama", "num_hidden_layers": 1, "tie_word_embeddings": true})");
  const auto tied = models::build_model(request);
  EXPECT_EQ(tied->all_parameters()[0]->aliases, std::vector<std::string>{"lm_head.weight"});
  request.head_is_separate = true;
  const auto separate = models::build_model(request);
  EXPECT_EQ(separate->all_parameters().size(), tied->all_parameters().size() + 1);
}

}  // namespace
}  // namespace trainer::testing
