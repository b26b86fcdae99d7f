// Adapters: which layers get one, what they compute, their configuration file.
#include <fstream>

#include <gtest/gtest.h>

#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/matmul.h>

#include "engine/adapters/adapter_config.h"
#include "engine/adapters/decomposition.h"
#include "engine/adapters/inject.h"
#include "engine/adapters/lora_linear.h"
#include "engine/adapters/target.h"
#include "engine/base/errors.h"
#include "engine/config/plan/adapter_folder.h"
#include "models/registry.h"
#include "tests/adapters/peft_case.h"
#include "tests/nn/reference.h"
#include "tests/support/golden_case.h"
#include "tests/support/ranks.h"
#include "tests/support/temporary_folder.h"

namespace trainer::testing {
namespace {

std::unique_ptr<models::Model> small_model(const char* feed_forward = "gated-gelu") {
  const nlohmann::json config = {{"model_type", "t5"},
                                 {"vocab_size", 9},
                                 {"d_model", 4},
                                 {"d_kv", 2},
                                 {"d_ff", 6},
                                 {"num_heads", 2},
                                 {"num_layers", 2},
                                 {"num_decoder_layers", 1},
                                 {"feed_forward_proj", feed_forward},
                                 {"tie_word_embeddings", false}};
  return models::build_model({config.dump(), "test", false, true});
}

config::LoraConfig with_names(std::vector<std::string> names) {
  config::LoraConfig options;
  options.target_modules.names = std::move(names);
  return options;
}

config::LoraConfig with_pattern(std::string pattern) {
  config::LoraConfig options;
  options.target_modules.pattern = std::move(pattern);
  return options;
}

size_t matched(const config::LoraConfig& options) {
  return adapters::target_layers(*small_model(), options).size();
}

// The model: 2 encoder blocks (q k v o, wi_0 wi_1 wo), 1 decoder block (twice q k v o, wi_0 wi_1 wo), lm_head.
TEST(LoraTargets, NamesMatchWholeSuffixes) {
  EXPECT_EQ(matched(with_names({"q"})), 4U);
  EXPECT_EQ(matched(with_names({"q", "wo", "lm_head"})), 8U);
  EXPECT_EQ(matched(with_names({"SelfAttention.q"})), 3U);
  EXPECT_EQ(matched(with_names({"o"})), 4U);  // not wo
  EXPECT_EQ(adapters::target_layers(*small_model(), with_names({"encoder.block.1.layer.0.SelfAttention.v"})),
            (std::vector<std::string>{"encoder.block.1.layer.0.SelfAttention.v"}));
  for (const char* name : {"Attention.q", "block.0", "DenseReluDense", "", ".q", "q."})
    EXPECT_THROW(matched(with_names({name})), ConfigError) << name;
}

TEST(LoraTargets, PatternsMatchTheWholePath) {
  EXPECT_EQ(matched(with_pattern("encoder\\..*\\.(q|v)")), 4U);
  EXPECT_EQ(matched(with_pattern(".*wi_[01]")), 6U);
  EXPECT_EQ(matched(with_pattern("lm_head")), 1U);
  EXPECT_THROW(matched(with_pattern("q")), ConfigError);
  EXPECT_THROW(matched(with_pattern("(q")), ConfigError);
}

TEST(LoraTargets, RefusesPatternsThatTakeTooLong) {
  const auto refused = [](const std::string& pattern) {
    try {
      matched(with_pattern(pattern));
    } catch (const ConfigError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_NE(refused("(([a-z._0-9]+)+)+[!?]").find("takes too long"), std::string::npos)
      << refused("(([a-z._0-9]+)+)+[!?]");
  const std::string deep = std::string(30'000, '(') + "q" + std::string(30'000, ')');
  EXPECT_NE(refused(deep).find("is not a regular expression"), std::string::npos);
  EXPECT_NE(refused(std::string(100'000, '(') + std::string(100'000, ')')).find("at most"), std::string::npos);
}

TEST(LoraTargets, AllLinearExcludesTheHead) {
  const auto targets = adapters::target_layers(*small_model(), with_pattern("all-linear"));
  EXPECT_EQ(targets.size(), 2U * 7 + 11);
  EXPECT_EQ(std::count(targets.begin(), targets.end(), "lm_head"), 0);
}

TEST(LoraTargets, EmptyTargetsUseTheFamilyDefaults) {
  config::LoraConfig options;
  EXPECT_EQ(adapters::inject(*small_model(), options).layers, 8);
  EXPECT_EQ(options.target_modules.names, (std::vector<std::string>{"q", "v"}));
  options = {};
  options.peft_type = "IA3";
  EXPECT_EQ(adapters::inject(*small_model(), options).layers, 11);  // k and v of four attentions, wo of three blocks
  EXPECT_EQ(options.feedforward_modules.names, (std::vector<std::string>{"wo"}));
}

TEST(LoraTargets, OnlyLinearLayersFitVeraAndLoha) {
  for (const char* kind : {"VERA", "LOHA"}) {
    config::LoraConfig options = with_names({"q", "shared"});
    options.peft_type = kind;
    EXPECT_THROW(adapters::inject(*small_model(), options), ConfigError) << kind;
    options = {};
    options.peft_type = kind;
    EXPECT_EQ(adapters::inject(*small_model(), options).layers, 8) << kind;
  }
  PeftCase gpt2("gpt2_vera");  // whose layers are Conv1D
  gpt2.options.peft_type = "LOHA";
  EXPECT_THROW(adapters::inject(*gpt2.base(), gpt2.options), ConfigError);
}

TEST(LoraTargets, LayersToTransformSelectsBlocksByTheFirstIndex) {
  config::LoraConfig options = with_names({"q", "wo"});
  options.layers_to_transform = {1};
  EXPECT_EQ(matched(options), 2U);  // of the encoder's second block
  options.layers_pattern = {"block"};
  EXPECT_EQ(matched(options), 2U);
  options.layers_pattern = {"h", "layer"};  // indices of the parts of a block
  EXPECT_EQ(matched(options), 3U);          // two wo of the encoder, the decoder's EncDecAttention.q
  options.target_modules.names = {"encoder.block.0.layer.0.SelfAttention.q"};  // a whole path passes anyway
  EXPECT_EQ(matched(options), 1U);
  options = with_names({"q"});
  options.layers_to_transform = {7};
  EXPECT_THROW(matched(options), ConfigError);
}

TEST(LoraTargets, EmbeddingsMatchByNameOnly) {
  EXPECT_EQ(matched(with_names({"embed_tokens"})), 2U);
  EXPECT_EQ(matched(with_pattern(".*\\.embed_tokens|shared")), 3U);
}

TEST(Lora, PatternsSetRankAndAlphaBySuffix) {
  const auto model = small_model();
  config::LoraConfig options = with_names({"q", "v"});
  options.rank_pattern = {{"v", 2}, {"block.1.*q", 3}};
  adapters::inject(*model, options);
  std::map<std::string, int64_t> ranks;
  for (const nn::ParameterPtr& p : model->all_parameters())
    if (p->name.ends_with(".lora_A.weight")) ranks[p->name] = p->shape[0];
  EXPECT_EQ(ranks["encoder.block.1.layer.0.SelfAttention.q.lora_A.weight"], 3);
  EXPECT_EQ(ranks["encoder.block.0.layer.0.SelfAttention.q.lora_A.weight"], 8);
  EXPECT_EQ(ranks["decoder.block.0.layer.1.EncDecAttention.v.lora_A.weight"], 2);
}

TEST(Decomposition, PissaIsTheBestApproximationAndOloraSpansTheColumns) {
  const double scale = 2.5;
  const at::Tensor w = random_tensor({9, 6}, 1);
  const auto rest = [&](const adapters::LowRank& part, double times) {
    return (w - times * at::matmul(part.b, part.a)).norm().item<double>();
  };
  const auto pissa = adapters::decompose(w, "pissa", 2, scale, "x");
  const auto random = adapters::decompose(w, "pissa_niter_16", 2, scale, "x");
  EXPECT_LT(rest(pissa, scale), w.norm().item<double>());
  EXPECT_NEAR(rest(random, scale) / rest(pissa, scale), 1.0, 1e-3);
  EXPECT_LE(rest(pissa, scale), rest(adapters::decompose(w, "pissa_niter_0", 2, scale, "x"), scale));
  EXPECT_LT(rest(adapters::decompose(w, "pissa", 6, scale, "x"), scale), 1e-5);
  const auto olora = adapters::decompose(w, "olora", 6, scale, "x");
  EXPECT_LT(rest(olora, 1), 1e-5);
  EXPECT_LT((at::matmul(olora.b.t(), olora.b).trace() - 6).abs().item<double>(), 1e-5);
}

TEST(Decomposition, RefusesARankBeyondTheLayer) {
  config::LoraConfig options = with_names({"q"});
  options.init_lora_weights = "pissa";
  EXPECT_THROW(adapters::inject(*small_model(), options), ConfigError);  // rank 8 for [4, 4]
}

TEST(LoraTargets, ExclusionsAndSavedModulesTakePrecedence) {
  config::LoraConfig options = with_names({"q", "v"});
  options.exclude_modules.names = {"EncDecAttention.q"};
  EXPECT_EQ(matched(options), 7U);
  options.exclude_modules = {};
  options.exclude_modules.pattern = "decoder\\..*";
  EXPECT_EQ(matched(options), 4U);
  options.exclude_modules = {};
  options.modules_to_save = {"SelfAttention"};  // and everything inside it
  EXPECT_EQ(matched(options), 2U);
  options.modules_to_save = {"decoder"};
  EXPECT_EQ(matched(options), 4U);
}

TEST(LoraTargets, NoMatchListsTheCandidates) {
  try {
    matched(with_names({"query", "value"}));
    FAIL();
  } catch (const ConfigError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("query, value"), std::string::npos) << text;
    EXPECT_NE(text.find("embed_tokens, k, lm_head, o, q, relative_attention_bias, shared, v, wi_0, wi_1, wo"),
              std::string::npos)
        << text;
  }
}

TEST(LoraTargets, ModulesToSaveMustExist) {
  config::LoraConfig options;
  options.modules_to_save = {"lm_heads"};
  EXPECT_THROW(adapters::modules_to_save(*small_model(), options), ConfigError);
  options.modules_to_save = {"classifier", "lm_head"};  // PEFT adds the first by itself
  EXPECT_EQ(adapters::modules_to_save(*small_model(), options).size(), 1U);
}

TEST(LoraTargets, ModulesToSaveMatchTheEndOfAPath) {
  const auto model = small_model();
  size_t norms = 0;
  model->visit([&](nn::Module& module) { norms += module.path().ends_with("layer_norm") ? 1 : 0; });
  config::LoraConfig options;
  options.modules_to_save = {"norm"};  // as PEFT reads it, which asks for no dot before the name
  EXPECT_EQ(adapters::modules_to_save(*model, options).size(), norms);
  EXPECT_GT(norms, 4U);
  options.modules_to_save = {"final_layer_norm"};
  EXPECT_EQ(adapters::modules_to_save(*model, options).size(), 2U);
}

TEST(Lora, OnlyAdaptersAndSavedModulesTrain) {
  const auto model = small_model();
  config::LoraConfig options = with_names({"q"});
  options.modules_to_save = {"final_layer_norm"};
  EXPECT_EQ(adapters::inject(*model, options).layers, 4);
  size_t adapters = 0, saved = 0;
  for (const nn::ParameterPtr& p : model->all_parameters()) {
    const bool adapter = p->name.find(".lora_") != std::string::npos,
               norm = p->name.find("final_layer_norm") != std::string::npos;
    EXPECT_EQ(p->trainable, adapter || norm) << p->name;
    adapters += adapter, saved += norm;
    if (p->name.ends_with("q.lora_A.weight")) {
      EXPECT_EQ(p->shape, (std::vector<int64_t>{8, 4}));
    }
    if (p->name.ends_with("q.lora_B.weight")) {
      EXPECT_EQ(p->shape, (std::vector<int64_t>{4, 8}));
    }
  }
  EXPECT_EQ(adapters, 8U);
  EXPECT_EQ(saved, 2U);
}

TEST(Lora, MatchesTheReference) {
  const double scale = 1.7;
  for (const double p : {0.0, 0.3})
    for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16})
      for (const auto& lengths : std::vector<std::vector<int64_t>>{{3, 1, 4}, {}}) {
        const nn::LayoutPtr rows = layout_of(lengths);
        const nn::DropoutRule rule = nn::dropout_rule(nn::philox_key(5, "q.lora_dropout"), p);
        const at::Tensor mask = mask_of(rule, *rows, 37);
        expect_same(
            [&](const auto& in) {
              return adapters::add_low_rank(in[0], {in[1], rows}, in[2], in[3], scale, rule);
            },
            [&](const auto& in) { return in[0] + at::matmul(at::matmul(in[1] * mask, in[2].t()), in[3].t()) * scale; },
            {random_tensor({rows->tokens(), 11}, 1, dtype), random_tensor({rows->tokens(), 37}, 2, dtype),
             random_tensor({3, 37}, 3, dtype), random_tensor({11, 3}, 4, dtype)},
            2 * tolerance_of(dtype), "dropout " + std::to_string(p));
      }
}

TEST(Lora, AddsTheBranchToTheBase) {
  nn::Linear base(5, 4, true, {});
  adapters::LoraLinear layer(base, {2, 0.5, 0.25, {}, {}});
  layer.name_tree();
  uint64_t seed = 0;
  for (const auto& [name, parameter] : layer.parameters()) parameter->value = random_tensor(parameter->shape, ++seed);
  const auto value = [&](const char* wanted) {
    for (const auto& [name, parameter] : layer.parameters())
      if (name == wanted) return parameter->value;
    return at::Tensor();
  };
  nn::Pass pass;
  pass.training = true;
  pass.seed = 3;
  const nn::LayoutPtr rows = layout_of({3, 2}, {8, 2});
  const at::Tensor x = random_tensor({5, 5}, 9);
  const at::Tensor plain = at::matmul(x, value("weight").t()) + value("bias");
  const at::Tensor dropped = nn::dropout(x, pass.dropout(".lora_dropout", 0.25), rows);
  const auto branch = [&](const at::Tensor& in) {
    return 0.5 * at::matmul(at::matmul(in, value("lora_A.weight").t()), value("lora_B.weight").t());
  };
  EXPECT_LT(relative_error(layer({x, rows}, pass).x, plain + branch(dropped)), 1e-6);
  pass.training = false;
  EXPECT_LT(relative_error(layer({x, rows}, pass).x, plain + branch(x)), 1e-6);
}

TEST(Lora, FrozenBaseHasNoGradients) {
  for (const auto type :
       {config::DistributedType::kNo, config::DistributedType::kMultiCpu, config::DistributedType::kFsdp}) {
    GoldenCase golden("v1_0/lora_qv");
    golden.plan.config.distributed_type = type;
    run_ranks(type == config::DistributedType::kNo ? 1 : 2, [&](dist::Comm& comm) {
      const auto model = make_model(golden.plan, comm);
      model->update({golden.batches[0]}, golden.batches[0].target_tokens, {});
      double norm = 0;
      for (const auto& tensor : model->logical_tensors()) {
        EXPECT_EQ(tensor.grad.defined(), tensor.trainable) << tensor.name;
        if (tensor.trainable) norm += tensor.grad.abs().sum().item<double>();
      }
      EXPECT_GT(norm, 0);
      for (const nn::ParameterPtr& p : model->model().all_parameters())
        EXPECT_EQ(p->value.requires_grad(), p->trainable) << p->name;
    });
  }
}

TEST(Lora, SavingATiedHeadUntiesIt) {
  config::Plan plan = GoldenCase("v1_0").plan;
  plan.config.lora.emplace().modules_to_save = {"lm_head"};
  const auto comm = dist::solo_comm();
  const auto model = make_model(plan, *comm);
  const auto find = [&](const std::string& name) {
    const auto all = model->logical_tensors();
    const auto found = std::find_if(all.begin(), all.end(), [&](const auto& t) { return t.name == name; });
    EXPECT_NE(found, all.end()) << name;
    return *found;
  };
  const auto shared = find("shared.weight"), head = find("lm_head.weight");
  EXPECT_FALSE(shared.trainable);
  EXPECT_TRUE(head.trainable);
  EXPECT_EQ(std::count(shared.aliases.begin(), shared.aliases.end(), "lm_head.weight"), 0);
  EXPECT_TRUE(at::equal(shared.value, head.value));  // it starts as a copy
  const at::Tensor before = shared.value.clone();
  const models::Batch batch = make_batch({{5, 8, 1}}, {{2, 3, 1}});
  model->update({batch}, batch.target_tokens, {});
  optim::make_optimizer(plan.config.training, model->logical_tensors(), model->comm())
      ->step(model->logical_tensors(), 0.1);
  EXPECT_TRUE(at::equal(find("shared.weight").value, before));
  EXPECT_FALSE(at::equal(find("lm_head.weight").value, before));
}

class AdapterConfig : public ::testing::Test {
 protected:
  config::LoraConfig read(const std::string& text) {
    std::ofstream(folder_.path() / "adapter_config.json") << text;
    return config::read_adapter_config({.path = folder_.path().string()});
  }
  TemporaryFolder folder_;
};

TEST_F(AdapterConfig, RoundTrips) {
  config::LoraConfig options;
  options.r = 5;
  options.lora_alpha = 12.5;
  options.use_rslora = true;
  options.target_modules.names = {"q", "wo"};
  options.exclude_modules.pattern = "decoder.*";
  options.modules_to_save = {"lm_head"};
  const config::LoraConfig found = read(adapters::adapter_config_json(options, *small_model(), "t5"));
  EXPECT_EQ(found.r, 5);
  EXPECT_EQ(found.lora_alpha, 12.5);
  EXPECT_TRUE(found.use_rslora);
  EXPECT_EQ(found.target_modules.names, options.target_modules.names);
  EXPECT_EQ(found.exclude_modules.pattern, "decoder.*");
  EXPECT_EQ(found.modules_to_save, options.modules_to_save);
}

TEST_F(AdapterConfig, HasTheKeysThatPeftNeeds) {
  config::LoraConfig options;
  options.lora_dropout = 0.1;
  const auto model = small_model();
  adapters::inject(*model, options);
  const auto file = nlohmann::json::parse(adapters::adapter_config_json(options, *model, "base"));
  EXPECT_EQ(file["peft_type"], "LORA");
  EXPECT_EQ(file["task_type"], "SEQ_2_SEQ_LM");
  EXPECT_EQ(file["target_modules"], nlohmann::json({"q", "v"}));
  EXPECT_TRUE(file["lora_alpha"].is_number_integer());
  EXPECT_EQ(file["lora_dropout"], 0.1);
  EXPECT_TRUE(file["modules_to_save"].is_null());
  EXPECT_EQ(file["init_lora_weights"], true);
}

TEST_F(AdapterConfig, RefusesUnsupportedOptions) {
  for (const char* text :
       {R"({"peft_type": "LORA", "use_dora": false, "rank_pattern": {}, "layers_to_transform": null, "bias": "none"})",
        R"({"peft_type": "LORA", "use_dora": true, "rank_pattern": {"q": 4}, "layers_to_transform": 1, "bias": "all"})",
        R"({"peft_type": "LORA", "init_lora_weights": "eva"})", R"({"peft_type": "IA3", "feedforward_modules": []})",
        R"({"peft_type": "VERA", "bias": "none", "save_projection": false})",
        R"({"peft_type": "LOHA", "alpha_pattern": {"q": 4}})",
        R"({"peft_type": "PROMPT_TUNING", "num_virtual_tokens": 3})",
        R"({"peft_type": "PREFIX_TUNING", "num_virtual_tokens": 3})"})
    EXPECT_NO_THROW(read(text)) << text;
  for (const char* text : {"",
                           "[]",
                           "{",
                           "null",
                           "{}",
                           R"({"peft_type": "ADALORA"})",
                           R"({"peft_type": null})",
                           R"({"peft_type": "P_TUNING", "num_virtual_tokens": 3})",
                           R"({"peft_type": "PREFIX_TUNING"})",
                           R"({"peft_type": "PREFIX_TUNING", "num_virtual_tokens": 3, "prefix_projection": true})",
                           R"({"peft_type": "PROMPT_TUNING", "num_virtual_tokens": 0})",
                           R"({"peft_type": "VERA", "bias": "vera_only"})",
                           R"({"peft_type": "VERA", "projection_prng_key": "x"})",
                           R"({"peft_type": "LOHA", "rank_pattern": {"q": 0}})",
                           R"({"peft_type": "LORA", "use_qalora": true})",
                           R"({"peft_type": "LORA", "rank_pattern": {"q": 0}})",
                           R"({"peft_type": "LORA", "rank_pattern": [4]})",
                           R"({"peft_type": "LORA", "init_lora_weights": "corda"})",
                           R"({"peft_type": "LORA", "target_parameters": ["x"]})",
                           R"({"peft_type": "LORA", "layers_to_transform": ["x"]})",
                           R"({"peft_type": "LORA", "bias": "some"})",
                           R"({"peft_type": "LORA", "r": "8"})",
                           R"({"peft_type": "LORA", "target_modules": [1]})",
                           R"({"peft_type": "LORA", "r": 0})",
                           R"({"peft_type": "LORA", "r": -4})",
                           R"({"peft_type": "LORA", "r": 1e30})"})
    EXPECT_THROW(read(text), InputError) << text;
}

}  // namespace
}  // namespace trainer::testing
