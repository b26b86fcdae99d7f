// `trainer estimate-memory`: against arithmetic, against Accelerate's figures, and against the plan of `trainer check`.
#include "engine/train/estimate/estimate.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "engine/base/errors.h"
#include "engine/base/temporary_folder.h"

namespace trainer::testing {
namespace {

const char* const kBert = R"({"model_type": "bert"})";
const char* const kGpt2 = R"({"model_type": "gpt2"})";
const char* const kLlama = R"({"model_type": "llama", "vocab_size": 32000, "hidden_size": 4096,
    "intermediate_size": 11008, "num_hidden_layers": 32, "num_attention_heads": 32, "max_position_embeddings": 2048,
    "torch_dtype": "bfloat16"})";

class EstimateMemory : public ::testing::Test {
 protected:
  train::EstimateRequest request(const std::string& config_json) {
    publish_file(folder_.path() / "config.json", config_json);
    train::EstimateRequest request;
    request.folder = folder_.path();
    request.name = "model";
    request.dtypes = {"float32", "bfloat16", "int8", "int4"};
    return request;
  }
  std::string message_of(const train::EstimateRequest& wrong) {
    try {
      train::estimate_memory(wrong);
    } catch (const Error& error) {
      return std::to_string(error.code()) + " " + error.what();
    }
    return "";
  }
  trainer::TemporaryFolder folder_{"estimate-test"};
};

/// Accelerate 1.15: 437,943,304 bytes for bert-base with a head (it counts position ids too), 154,389,504 for GPT-2's
/// largest layer, 497,759,232 for GPT-2, 809,533,440 for a block of LLaMA 7B, 26,953,662,464 for its parameters.
TEST_F(EstimateMemory, LoadingAgreesWithAccelerate) {
  const train::Estimate bert = train::estimate_memory(request(kBert));
  EXPECT_EQ(bert.alone[0].total, 437'935'112);
  const train::Estimate gpt2 = train::estimate_memory(request(kGpt2));
  EXPECT_EQ(gpt2.alone[0].total, 497'759'232);
  EXPECT_EQ(gpt2.alone[0].largest_layer, 154'389'504);
  EXPECT_EQ(gpt2.alone[1].total, 497'759'232 / 2);
  EXPECT_EQ(gpt2.alone[3].total, 497'759'232 / 8);
  const train::Estimate llama = train::estimate_memory(request(kLlama));
  EXPECT_EQ(llama.alone[0].total, 26'953'662'464);
  EXPECT_EQ(llama.alone[0].largest_layer, 809'533'440);
  EXPECT_EQ(llama.largest_layer, "model.layers.0 (LlamaDecoderLayer)");
}

TEST_F(EstimateMemory, TrainingIsArithmeticInItsPermanentParts) {
  train::EstimateRequest asked = request(kLlama);
  asked.ranks = 8;
  asked.lora_rank = 16;
  asked.sequence_length = 1024;
  const train::Estimate found = train::estimate_memory(asked);
  const int64_t parameters = 6'738'415'616, adapter = 32 * 2 * 16 * (4096 + 4096);
  EXPECT_EQ(found.parameters, parameters);
  const train::EstimateRow& fp32 = found.alone[0];
  EXPECT_EQ(fp32.full->held(), 16 * parameters);
  EXPECT_GT(fp32.full->training(), fp32.full->held());
  EXPECT_EQ(fp32.lora->weights, 4 * (parameters + adapter));
  const train::EstimateRow& bf16 = found.alone[1];
  EXPECT_EQ(bf16.full->held(), 16 * parameters);  // masters stay fp32
  EXPECT_EQ(bf16.lora->held(), 2 * parameters + 16 * adapter);
  EXPECT_FALSE(found.alone[2].full || found.alone[2].lora);
  const train::EstimateRow& int4 = found.alone[3];
  EXPECT_FALSE(int4.full);
  EXPECT_GT(int4.lora->held(), parameters / 2);
  EXPECT_LT(int4.lora->held(), bf16.lora->held() / 2);
  ASSERT_EQ(found.sharded.size(), 9u);  // three strategies in three dtypes
  for (const train::EstimateRow& row : found.sharded) {
    if (!row.full) continue;
    const int64_t share = row.strategy == "DDP" ? parameters : parameters / 8;
    EXPECT_NEAR(static_cast<double>(row.full->held()), 16.0 * static_cast<double>(share), 1e6) << row.strategy;
  }
  const auto peak = [&](const std::string& name) {
    for (const train::EstimateRow& row : found.sharded)
      if (row.dtype == "float32" && row.names.front() == name) return row.full->training();
    return int64_t{0};
  };
  EXPECT_GT(peak("DDP"), peak("FSDP SHARD_GRAD_OP"));
  EXPECT_GT(peak("FSDP SHARD_GRAD_OP"), peak("FSDP FULL_SHARD"));
  EXPECT_GT(peak("FSDP FULL_SHARD"), 0);
}

TEST_F(EstimateMemory, BatchLengthAndRecomputationChangeOnlyActivations) {
  train::EstimateRequest asked = request(kGpt2);
  asked.dtypes = {"float32"};
  asked.sequence_length = 256;
  const train::MemoryPlan small = *train::estimate_memory(asked).alone[0].full;
  asked.batch_size = 4;
  const train::MemoryPlan large = *train::estimate_memory(asked).alone[0].full;
  asked.gradient_checkpointing = true;
  const train::MemoryPlan recomputed = *train::estimate_memory(asked).alone[0].full;
  EXPECT_EQ(small.held(), large.held());
  EXPECT_GT(large.activations, small.activations);
  EXPECT_LT(recomputed.activations, large.activations);
}

TEST_F(EstimateMemory, RefusesWhatTheModelDoesNotHave) {
  train::EstimateRequest asked = request(kLlama);
  asked.sequence_length = 4096;
  EXPECT_EQ(message_of(asked), "2 --sequence_length is 4096, but LlamaForCausalLM has 2048 positions: 2048 or less");
  asked = request(kGpt2);
  asked.task = "seq2seq_lm";
  EXPECT_EQ(message_of(asked).find("2 --task seq2seq_lm: a model of the family gpt2 is trained for causal_lm"), 0u)
      << message_of(asked);
  asked = request(kGpt2);
  asked.targets = {"nothing"};
  EXPECT_EQ(message_of(asked)[0], '2') << message_of(asked);
  EXPECT_EQ(message_of(request(R"({"model_type": "unheard_of"})"))[0], '3');
  EXPECT_NE(message_of(request(R"({"vocab_size": 3})")).find("config.json: has no model_type"), std::string::npos);
  EXPECT_NE(message_of(request("[1")).find("is not a JSON object"), std::string::npos);
}

TEST_F(EstimateMemory, PageNamesWhatItAssumes) {
  train::EstimateRequest asked = request(kBert);
  const std::string page = train::to_text(train::estimate_memory(asked), asked);
  for (const char* part : {"109,483,778 parameters, sequence_classification", "1 sample of 512 tokens at a time",
                           "LoRA: on query, value;", "--num_processes N", "nothing is trained in int8"})
    EXPECT_NE(page.find(part), std::string::npos) << part << " in\n" << page;
  asked.ranks = 4;
  const auto json = train::to_json(train::estimate_memory(asked), asked);
  EXPECT_EQ(json.at("dtypes").size(), 4u);
  EXPECT_EQ(json.at("strategies").size(), 18u);  // six names in three dtypes
  EXPECT_TRUE(json.at("dtypes")[2].at("training").is_null());
  EXPECT_EQ(json.at("dtypes")[0].at("training").at("held"), 4 * json.at("dtypes")[0].at("total").get<int64_t>());
}

}  // namespace
}  // namespace trainer::testing
