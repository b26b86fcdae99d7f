// Embeddings and hidden matrices, recognized by name in every family.
#include "engine/optim/parameter_rules.h"

#include <fstream>
#include <set>
#include <sstream>

#include <gtest/gtest.h>

#include "models/nn/linear.h"
#include "models/registry.h"
#include "tests/support/source_dir.h"

namespace trainer::testing {
namespace {

std::unique_ptr<models::Model> model_of(const std::string& golden, models::Task task) {
  const std::ifstream in(source_dir() + "/tests/golden/" + golden + "/config.json");
  std::ostringstream text;
  text << in.rdbuf();
  return models::build_model({.config_json = text.str(), .origin = golden, .task = task});
}

class ParameterRules : public ::testing::TestWithParam<std::pair<const char*, models::Task>> {};

TEST_P(ParameterRules, EmbeddingsAndHiddenMatricesAreTheModules) {
  const auto model = model_of(GetParam().first, GetParam().second);
  std::set<nn::ParameterPtr> embeddings, hidden;
  model->visit([&](nn::Module& module) {
    if (dynamic_cast<nn::Embedding*>(&module) != nullptr)
      for (const auto& [name, parameter] : module.parameters()) embeddings.insert(parameter);
    if (dynamic_cast<nn::Linear*>(&module) != nullptr && module.path() != model->output_head())
      for (const auto& [name, parameter] : module.parameters())
        if (parameter->shape.size() == 2) hidden.insert(parameter);
  });
  ASSERT_FALSE(embeddings.empty());
  ASSERT_FALSE(hidden.empty());
  for (const nn::ParameterPtr& p : model->all_parameters()) {
    parallel::LogicalTensor tensor;
    tensor.name = p->name;
    tensor.shape = p->shape;
    EXPECT_EQ(optim::is_embedding(p->name), embeddings.count(p) == 1) << p->name;
    EXPECT_EQ(optim::is_hidden_matrix(tensor), hidden.count(p) == 1) << p->name;
  }
}

INSTANTIATE_TEST_SUITE_P(Families, ParameterRules,
                         ::testing::Values(std::pair{"gpt2/causal", models::Task::kCausalLm},
                                           std::pair{"gpt2/classes", models::Task::kSequenceClassification},
                                           std::pair{"bert/named", models::Task::kSequenceClassification},
                                           std::pair{"llama/llama", models::Task::kCausalLm},
                                           std::pair{"t5/v1_0", models::Task::kSeq2SeqLm},
                                           std::pair{"t5/v1_1", models::Task::kSeq2SeqLm}));

TEST(HiddenMatrices, ExcludeVectorsAndAdaptersOfEmbeddings) {
  parallel::LogicalTensor tensor;
  const auto is_hidden = [&](const char* name, const nn::Shape& shape) {
    tensor.name = name;
    tensor.shape = shape;
    return optim::is_hidden_matrix(tensor);
  };
  EXPECT_TRUE(is_hidden("layers.0.q_proj.lora_A.weight", {4, 16}));
  EXPECT_FALSE(is_hidden("model.embed_tokens.lora_embedding_A", {4, 16}));
  EXPECT_FALSE(optim::is_embedding("model.embed_tokens.lora_embedding_A"));  // a parameter, not nn.Embedding
  EXPECT_FALSE(is_hidden("layers.0.mlp.ia3_l", {16, 1}));
  EXPECT_FALSE(is_hidden("layers.0.norm.weight", {16}));
}

}  // namespace
}  // namespace trainer::testing
