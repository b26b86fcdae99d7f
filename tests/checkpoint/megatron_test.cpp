// Folders in Megatron's layout: the place of every weight, and exact round trips.
#include <fstream>
#include <map>

#include <gtest/gtest.h>

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <fmt/format.h>

#include "engine/base/errors.h"
#include "engine/base/files.h"
#include "engine/checkpoint/export_checkpoint.h"
#include "engine/checkpoint/export_megatron.h"
#include "engine/tensorfile/safetensors_writer.h"
#include "engine/weights/foreign_checkpoint.h"
#include "engine/weights/megatron_source.h"
#include "models/registry.h"
#include "tests/support/temporary_folder.h"

namespace trainer::testing {
namespace {

namespace fs = std::filesystem;
using checkpoint::MegatronDegrees;

// Four heads of width 2 in two groups; 300 tokens are not a multiple of 128.
constexpr const char* kSizes =
    R"("vocab_size": 300, "hidden_size": 6, "intermediate_size": 8, "num_hidden_layers": 4,
       "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 2)";
const std::map<std::string, std::string> kConfigs = {
    {"untied", fmt::format(R"({{"model_type": "llama", {}}})", kSizes)},
    {"tied", fmt::format(R"({{"model_type": "llama", "tie_word_embeddings": true, {}}})", kSizes)},
    {"biases", fmt::format(R"({{"model_type": "llama", "attention_bias": true, "mlp_bias": true, {}}})", kSizes)},
    {"qwen2", fmt::format(R"({{"model_type": "qwen2", {}}})", kSizes)},
    {"qwen3", fmt::format(R"({{"model_type": "qwen3", {}}})", kSizes)}};

std::unique_ptr<models::Model> build(const std::string& config) {
  return models::build_model({.config_json = config, .origin = "config.json", .task = models::Task::kCausalLm});
}

/// A model folder in which all values of all weights differ.
class ModelFolder {
 public:
  explicit ModelFolder(const std::string& config) : config_(config), model_(build(config)) {
    std::vector<tensorfile::TensorSpec> specs;
    int64_t next = 0;
    for (const nn::ParameterPtr& p : model_->all_parameters()) {
      specs.push_back({p->name, at::kFloat, p->shape});
      weights_[p->name] = at::arange(next, next + p->numel(), at::kFloat).view(p->shape);
      next += p->numel();
    }
    tensorfile::SafetensorsWriter writer(path() / "model.safetensors", specs);
    for (const auto& tensor : writer.order()) writer.write(tensor.name, weights_.at(tensor.name));
    writer.finish();
    publish_file(path() / "config.json", config);
    publish_file(path() / "tokenizer.json", "{}");
  }
  const fs::path& path() const { return folder_.path(); }
  models::Model& model() const { return *model_; }
  const at::Tensor& operator[](const std::string& name) const { return weights_.at(name); }

 private:
  std::string config_;
  std::unique_ptr<models::Model> model_;
  TemporaryFolder folder_;
  std::map<std::string, at::Tensor> weights_;
};

at::Tensor read_whole(const parallel::WeightSource& source, const nn::Parameter& parameter) {
  const at::Tensor whole = at::empty(parameter.shape, source.storage(parameter).dtype);
  source.read(parameter, 0, whole.numel(), whole.view(-1));
  return whole;
}

std::string error_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

class Exported : public ::testing::Test {
 protected:
  void write(const ModelFolder& folder, const MegatronDegrees& degrees) {
    fs::remove_all(output());
    checkpoint::export_megatron(folder.path(), output(), degrees);
  }
  fs::path output() const { return place_.path() / "megatron"; }
  fs::path rank(const std::string& name) const { return output() / "release" / name / "model.safetensors"; }
  std::string refusal(const ModelFolder& folder) const {
    return error_of([&] { checkpoint::MegatronSource(output(), folder.model(), 1).check(folder.model()); });
  }

  TemporaryFolder place_;
};

TEST_F(Exported, RoundTripsExactly) {
  for (const auto& [name, config] : kConfigs) {
    const ModelFolder folder(config);
    for (const MegatronDegrees degrees : std::vector<MegatronDegrees>{{1, 1}, {2, 1}, {1, 2}, {2, 2}, {2, 4}}) {
      SCOPED_TRACE(fmt::format("{} tensor {} pipeline {}", name, degrees.tensor, degrees.pipeline));
      write(folder, degrees);
      const checkpoint::MegatronSource source(output(), folder.model(), 1);
      EXPECT_TRUE(source.check(folder.model()).empty());
      for (const nn::ParameterPtr& p : folder.model().all_parameters())
        EXPECT_TRUE(at::equal(read_whole(source, *p), folder[p->name])) << p->name;
      const fs::path back = place_.path() / "back";
      fs::remove_all(back);
      checkpoint::export_checkpoint(output(), back);
      for (const char* const file : {"model.safetensors", "config.json", "tokenizer.json"})
        EXPECT_EQ(read_file(back / file), read_file(folder.path() / file)) << file;
    }
  }
}

TEST_F(Exported, IsReadInArbitraryRanges) {
  const ModelFolder folder(kConfigs.at("untied"));
  write(folder, {2, 2});
  const checkpoint::MegatronSource source(output(), folder.model(), 1);
  for (const nn::ParameterPtr& p : folder.model().all_parameters())
    for (int64_t begin = 0; begin < p->numel(); begin += 7) {
      const int64_t end = std::min(begin + 7, p->numel());
      const at::Tensor out = at::empty({end - begin}, at::kFloat);
      source.read(*p, begin, end, out);
      ASSERT_TRUE(at::equal(out, folder[p->name].view(-1).narrow(0, begin, end - begin))) << p->name << " " << begin;
    }
}

/// Compares with the result of Megatron's own converter for the same weights, derived from its source.
TEST_F(Exported, HasMegatronsLayout) {
  const ModelFolder folder(kConfigs.at("untied"));
  write(folder, {2, 2});
  EXPECT_EQ(read_file(output() / checkpoint::kMegatronTracker), "release");
  const std::string layer = "model.layers.3.";  // the second one of the second stage
  const at::Tensor qkv = at::cat({folder[layer + "self_attn.q_proj.weight"].view({2, 4, 6}),
                                  folder[layer + "self_attn.k_proj.weight"].view({2, 2, 6}),
                                  folder[layer + "self_attn.v_proj.weight"].view({2, 2, 6})},
                                 1)
                             .view({16, 6});
  const at::Tensor tokens = folder["model.embed_tokens.weight"];
  const at::Tensor padded = at::cat({tokens, tokens.narrow(0, 299, 1).expand({212, 6})});
  for (int64_t rank = 0; rank < 2; ++rank) {
    const tensorfile::SafetensorsFile first(this->rank(fmt::format("mp_rank_0{}_000", rank))),
        last(this->rank(fmt::format("mp_rank_0{}_001", rank)));
    const auto mine = [&](const at::Tensor& whole, int64_t dim) { return whole.chunk(2, dim).at(rank); };
    const std::map<std::string, at::Tensor> expected = {
        {"self_attention.linear_qkv.weight", mine(qkv, 0)},
        {"self_attention.linear_qkv.layer_norm_weight", folder[layer + "input_layernorm.weight"]},
        {"self_attention.linear_proj.weight", mine(folder[layer + "self_attn.o_proj.weight"], 1)},
        {"mlp.linear_fc1.weight",
         at::cat({mine(folder[layer + "mlp.gate_proj.weight"], 0), mine(folder[layer + "mlp.up_proj.weight"], 0)})},
        {"mlp.linear_fc1.layer_norm_weight", folder[layer + "post_attention_layernorm.weight"]},
        {"mlp.linear_fc2.weight", mine(folder[layer + "mlp.down_proj.weight"], 1)}};
    for (const auto& [name, tensor] : expected)
      EXPECT_TRUE(at::equal(last.tensor("decoder.layers.1." + name), tensor)) << name << " of rank " << rank;
    EXPECT_TRUE(at::equal(last.tensor("decoder.final_layernorm.weight"), folder["model.norm.weight"]));
    EXPECT_TRUE(at::equal(first.tensor("embedding.word_embeddings.weight"), mine(padded, 0)));
    EXPECT_EQ(last.info("output_layer.weight").shape, (std::vector<int64_t>{256, 6}));
    EXPECT_EQ(first.names().size(), 1 + 2 * expected.size());
    EXPECT_EQ(last.names().size(), 2 + 2 * expected.size());
  }
}

TEST_F(Exported, ATiedEmbeddingHasACopyInTheLastStage) {
  const ModelFolder folder(kConfigs.at("tied"));
  write(folder, {1, 1});
  EXPECT_EQ(tensorfile::SafetensorsFile(rank("mp_rank_00")).find("output_layer.weight"), nullptr);
  write(folder, {1, 2});
  const tensorfile::SafetensorsFile first(rank("mp_rank_00_000")), last(rank("mp_rank_00_001"));
  EXPECT_TRUE(at::equal(first.tensor("embedding.word_embeddings.weight"), last.tensor("output_layer.weight")));
  EXPECT_EQ(refusal(folder), "no error");
  publish_file(output() / "config.json", kConfigs.at("tied"));
  // Change the copy, so that it differs from the embedding.
  std::string bytes = read_file(rank("mp_rank_00_001"));
  const auto& info = last.info("output_layer.weight");
  bytes.at(static_cast<size_t>(info.offset) + 5) ^= 1;
  publish_file(rank("mp_rank_00_001"), bytes);
  EXPECT_NE(refusal(folder).find("output_layer.weight differs from embedding.word_embeddings.weight"),
            std::string::npos)
      << refusal(folder);
}

TEST_F(Exported, NamesMissingFiles) {
  const ModelFolder folder(kConfigs.at("untied"));
  for (const char* const missing : {"mp_rank_01_000", "mp_rank_00_001", "mp_rank_01_001"}) {
    write(folder, {2, 2});
    fs::remove_all(output() / "release" / missing);
    const std::string message = refusal(folder);
    EXPECT_NE(message.find(fmt::format("{}/model.safetensors is missing", missing)), std::string::npos) << message;
    EXPECT_NE(message.find("need 4 files"), std::string::npos) << message;
  }
  write(folder, {2, 2});
  fs::remove_all(output() / "release");
  EXPECT_NE(refusal(folder).find("release is missing"), std::string::npos);
  publish_file(output() / checkpoint::kMegatronTracker, "../elsewhere");
  EXPECT_NE(refusal(folder).find("must contain a number or 'release'"), std::string::npos);
}

TEST_F(Exported, DoesNotFollowLinksOutOfTheFolder) {
  const ModelFolder folder(kConfigs.at("untied"));
  write(folder, {2, 1});
  fs::rename(output() / "release/mp_rank_01", place_.path() / "outside");
  fs::create_directory_symlink(place_.path() / "outside", output() / "release/mp_rank_01");
  EXPECT_NE(refusal(folder).find("is a link out of its folder"), std::string::npos) << refusal(folder);
}

TEST_F(Exported, RefusesAnotherModelsConfigWithBothValues) {
  const ModelFolder folder(kConfigs.at("untied"));
  write(folder, {2, 2});
  const auto refused = [&](const std::string& from, const std::string& to) {
    std::string config = kConfigs.at("untied");
    config.replace(config.find(from), from.size(), to);
    const auto other = build(config);
    return error_of([&] { checkpoint::MegatronSource(output(), *other, 1).check(*other); });
  };
  const std::string layers = refused(R"("num_hidden_layers": 4)", R"("num_hidden_layers": 6)");
  EXPECT_NE(layers.find("have 4 layers (2 + 2); config.json says 6"), std::string::npos) << layers;
  const std::string inner = refused(R"("intermediate_size": 8)", R"("intermediate_size": 10)");
  EXPECT_NE(inner.find("linear_fc1.weight is [8, 6]; config.json implies [10, 6]"), std::string::npos) << inner;
  EXPECT_NE(inner.find("mp_rank_00_000/model.safetensors"), std::string::npos) << inner;
  const std::string tokens = refused(R"("vocab_size": 300)", R"("vocab_size": 600)");
  EXPECT_NE(tokens.find("has 512 rows on 2 ranks; config.json says 600 tokens"), std::string::npos) << tokens;
}

TEST(Megatron, RefusesGemmaWhichSharesLlamasCode) {
  const std::string config = fmt::format(R"({{"model_type": "gemma2", {}}})", kSizes);
  const ModelFolder folder(config);
  const TemporaryFolder place;
  const std::string written =
      error_of([&] { checkpoint::export_megatron(folder.path(), place.path() / "out", MegatronDegrees{}); });
  EXPECT_NE(written.find("LLaMA's architecture only"), std::string::npos) << written;
  EXPECT_FALSE(fs::exists(place.path() / "out"));
  const std::string read = error_of([&] { checkpoint::MegatronSource(place.path(), folder.model(), 0); });
  EXPECT_NE(read.find("LLaMA's architecture only"), std::string::npos) << read;
}

TEST_F(Exported, RefusesDegreesThatDoNotDivideTheModel) {
  const ModelFolder folder(kConfigs.at("untied"));
  const std::string heads = error_of([&] { write(folder, {4, 1}); }), stages = error_of([&] { write(folder, {1, 3}); });
  EXPECT_NE(heads.find("num_key_value_heads is 2, which is not a multiple of tensor parallel 4"), std::string::npos);
  EXPECT_NE(stages.find("num_hidden_layers is 4, which is not a multiple of pipeline parallel 3"), std::string::npos);
  EXPECT_FALSE(fs::exists(output()));
  write(folder, {1, 1});
  EXPECT_NE(error_of([&] {
              checkpoint::export_megatron(folder.path(), output(), {1, 1});
            }).find("already"),
            std::string::npos);
}

/// As in converted pickles of Megatron runs that use its own layers.
TEST_F(Exported, AcceptsUnfusedNorms) {
  const ModelFolder folder(kConfigs.at("untied"));
  write(folder, {1, 1});
  const tensorfile::SafetensorsFile fused(rank("mp_rank_00"));
  std::map<std::string, at::Tensor> tensors;
  std::vector<tensorfile::TensorSpec> specs;
  for (std::string name : fused.names()) {
    const at::Tensor tensor = fused.tensor(name).clone();
    const std::pair<const char*, const char*> renamed[] = {
        {"self_attention.linear_qkv.layer_norm_weight", "input_layernorm.weight"},
        {"mlp.linear_fc1.layer_norm_weight", "pre_mlp_layernorm.weight"}};
    for (const auto& [from, to] : renamed)
      if (const size_t at = name.find(from); at != std::string::npos) name.replace(at, std::string::npos, to);
    tensors[name] = tensor;
    specs.push_back({name, at::kFloat, tensor.sizes().vec()});
  }
  tensorfile::SafetensorsWriter writer(rank("mp_rank_00"), specs);
  for (const auto& info : writer.order()) writer.write(info.name, tensors.at(info.name));
  writer.finish();
  const checkpoint::MegatronSource source(output(), folder.model(), 1);
  source.check(folder.model());
  for (const nn::ParameterPtr& p : folder.model().all_parameters())
    EXPECT_TRUE(at::equal(read_whole(source, *p), folder[p->name])) << p->name;
}

TEST_F(Exported, NamesPicklesAndDoesNotReadThem) {
  const ModelFolder folder(kConfigs.at("untied"));
  const fs::path iteration = output() / "iter_0000100";
  fs::create_directories(iteration / "mp_rank_00");
  publish_file(output() / checkpoint::kMegatronTracker, "100\n");
  publish_file(iteration / "mp_rank_00/model_optim_rng.pt", "never opened");
  for (const std::string& message :
       {refusal(folder), checkpoint::foreign_checkpoint(output()), checkpoint::foreign_checkpoint(iteration)}) {
    EXPECT_NE(message.find("Megatron checkpoint, whose files are pickles"), std::string::npos) << message;
    EXPECT_NE(message.find("safetensors.torch.save_file"), std::string::npos) << message;
    EXPECT_LE(std::count(message.begin(), message.end(), '\n'), 5);
  }
  fs::remove_all(iteration / "mp_rank_00");
  publish_file(iteration / "__0_0.distcp", "");
  EXPECT_NE(refusal(folder).find("distributed format"), std::string::npos) << refusal(folder);
  write(folder, {1, 1});
  EXPECT_NE(checkpoint::foreign_checkpoint(output()).find("model.path: " + output().string()), std::string::npos);
}

}  // namespace
}  // namespace trainer::testing
