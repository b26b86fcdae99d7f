// config.json of Gemma 1, 2 and 3: names, defaults, refusals.
#include <gtest/gtest.h>

#include "engine/base/errors.h"
#include "models/gemma/config.h"

namespace trainer::testing {
namespace {

using models::gemma::Generation;

models::gemma::Config gemma(Generation generation, const std::string& json) {
  return models::gemma::parse_config({.config_json = json, .origin = "here", .task = models::Task::kCausalLm},
                                     generation);
}

/// The error of building the model, or "".
std::string refusal(const std::string& json, bool strict = true) {
  try {
    models::build_model({.config_json = json, .origin = "here", .strict = strict, .task = models::Task::kCausalLm});
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(GemmaConfig, MissingKeysHaveTransformersDefaults) {
  const auto first = gemma(Generation::k1, "{}"), second = gemma(Generation::k2, "{}"),
             third = gemma(Generation::k3, "{}");
  EXPECT_EQ(first.kv_heads, 16);
  EXPECT_EQ(first.logit_soft_cap, 0);
  EXPECT_DOUBLE_EQ(first.attention_scale(), 1.0 / 16);
  EXPECT_EQ(second.attention_soft_cap, 50);
  EXPECT_EQ(second.logit_soft_cap, 30);
  EXPECT_EQ(second.rope.full.theta, 10000);
  EXPECT_TRUE(second.windowed[0] && !second.windowed[1] && second.windowed[24] && !second.windowed[25]);
  EXPECT_EQ(third.attention_soft_cap, 0);
  EXPECT_EQ(third.rope.full.theta, 1e6);
  EXPECT_EQ(third.rope.sliding.theta, 1e4);
  EXPECT_TRUE(third.windowed[4] && !third.windowed[5] && third.windowed[6]);
  for (const auto& c : {first, second, third}) EXPECT_TRUE(c.tied_head && c.head_dim == 256);
}

TEST(GemmaConfig, NullTurnsASoftCapOff) {
  const auto c = gemma(Generation::k2, R"({"attn_logit_softcapping": null, "final_logit_softcapping": null})");
  EXPECT_EQ(c.attention_soft_cap, 0);
  EXPECT_EQ(c.logit_soft_cap, 0);
}

TEST(GemmaConfig, ReadsRotaryPositionsByOldAndNewNames) {
  for (const char* json :
       {R"({"rope_theta": 2e6, "rope_local_base_freq": 500, "rope_scaling": {"rope_type": "linear", "factor": 8}})",
        R"({"rope_parameters": {"full_attention": {"rope_theta": 2e6, "rope_type": "linear", "factor": 8},
            "sliding_attention": {"rope_theta": 500, "rope_type": "default"}}})"}) {
    const auto c = gemma(Generation::k3, json);
    EXPECT_EQ(c.rope.full.theta, 2e6) << json;
    EXPECT_EQ(c.rope.full.kind, nn::RopeOptions::kLinear) << json;
    EXPECT_EQ(c.rope.full.factor, 8) << json;
    EXPECT_EQ(c.rope.sliding.theta, 500) << json;
    EXPECT_EQ(c.rope.sliding.kind, nn::RopeOptions::kDefault) << json;
  }
}

TEST(GemmaConfig, UnsupportedValuesAreNamed) {
  EXPECT_PRED2(contains, refusal(R"({"model_type": "gemma3", "text_config": {}})"), "multimodal");
  EXPECT_PRED2(contains, refusal(R"({"model_type": "gemma2", "use_bidirectional_attention": true})"), "bidirectional");
  EXPECT_PRED2(contains, refusal(R"({"model_type": "gemma3_text", "attn_logit_softcapping": 50})"), "ignores it");
  EXPECT_PRED2(contains, refusal(R"({"model_type": "gemma2", "layer_types": ["full_attention"]})"), "layer_types");
  EXPECT_PRED2(contains, refusal(R"({"model_type": "gemma2", "sliding_window": null})"), "sliding_window");
  EXPECT_PRED2(contains, refusal(R"({"model_type": "gemma", "num_key_value_heads": 3})"), "16 and 3");
  EXPECT_PRED2(contains, refusal(R"({"model_type": "gemma", "sliding_window": 5})"), "not a key of Gemma");
  EXPECT_PRED2(contains, refusal(R"({"model_type": "gemma3_text", "rope_parameters": {"rope_theta": 5}})"),
               "rope_parameters.full_attention must be");
  for (const char* type : {"gemma", "gemma2", "gemma3_text"})
    EXPECT_EQ(refusal(std::string(R"({"model_type": ")") + type + R"(", "use_bidirectional_attention": false})"), "");
}

}  // namespace
}  // namespace trainer::testing
