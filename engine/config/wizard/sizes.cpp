#include "engine/config/wizard/sizes.h"

#include <fmt/format.h>

#include "engine/config/machine/device.h"

namespace trainer::config {
namespace {

/// T5's encoder and decoder have `layers` each.
ModelSize t5(const char* name, int width, int inner, int layers, int heads) {
  return {name, fmt::format(R"({{"model_type":"t5","d_model":{0},"d_kv":{1},"d_ff":{2},"num_layers":{3},)"
                            R"("num_decoder_layers":{3},"num_heads":{4}}})",
                            width, width / heads, inner, layers, heads)};
}

ModelSize hidden(const char* name, const char* type, int width, int inner, int layers, int heads, int positions) {
  return {name, fmt::format(R"({{"model_type":"{}","hidden_size":{},"intermediate_size":{},"num_hidden_layers":{},)"
                            R"("num_attention_heads":{},"max_position_embeddings":{}}})",
                            type, width, inner, layers, heads, positions)};
}

ModelSize llama(const char* name, int width, int inner, int layers, int heads) {
  return hidden(name, "llama", width, inner, layers, heads, 1024);
}

ModelSize bert(const char* name, int width, int layers) {
  return hidden(name, "bert", width, 4 * width, layers, width / 64, 512);
}

ModelSize mlp(const char* name, const char* sizes) {
  return {name, fmt::format(R"({{"model_type":"mlp","input_size":784,"hidden_sizes":[{}],"num_labels":10}})", sizes)};
}

}  // namespace

// "small" has the proportions that train on a laptop; from "base" on, T5-base, BERT-base and GPT-2, T5-large and
// BERT-large, and TinyLlama.
const std::vector<ModelSize>& sizes_of(Goal goal) {
  static const std::vector<ModelSize> kPairs{t5("tiny", 128, 512, 2, 4), t5("small", 256, 1024, 4, 4),
                                             t5("medium", 512, 2048, 6, 8), t5("base", 768, 3072, 12, 12),
                                             t5("large", 1024, 4096, 24, 16)};
  static const std::vector<ModelSize> kTexts{llama("tiny", 128, 344, 2, 4), llama("small", 256, 688, 4, 4),
                                             llama("medium", 512, 1376, 8, 8), llama("base", 768, 2048, 12, 12),
                                             llama("large", 2048, 5632, 22, 32)};
  static const std::vector<ModelSize> kClasses{bert("tiny", 128, 2), bert("small", 256, 4), bert("medium", 512, 8),
                                               bert("base", 768, 12), bert("large", 1024, 24)};
  static const std::vector<ModelSize> kImages{mlp("small", "128"), mlp("medium", "512,256")};
  switch (goal) {
    case Goal::kAnswer:
      return kPairs;
    case Goal::kClassify:
      return kClasses;
    case Goal::kImages:
      return kImages;
    case Goal::kContinue:
    case Goal::kDialogue:
    case Goal::kPreferences:
      break;
  }
  return kTexts;
}

int64_t bytes_to_train(int64_t parameters) {
  return 4 * 4 * parameters;
}

int64_t bytes_for_model(const Config& config, const Machine& machine) {
  const int64_t ranks = ranks_per_machine(config);
  const bool on_gpus = asks_for_gpus(config) && machine.gpu_bytes > 0;
  const DistributedType type = config.distributed_type;
  const bool shards =
      type == DistributedType::kFsdp || type == DistributedType::kDeepspeed || type == DistributedType::kMegatronLm;
  const int64_t all = on_gpus ? ranks * machine.gpu_bytes : machine.memory_bytes;
  return (shards ? all : all / ranks) / 4 * 3;
}

}  // namespace trainer::config
