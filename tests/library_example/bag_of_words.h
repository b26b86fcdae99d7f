// A classifier that ignores the order of words: the mean of their embeddings, residual layers, and a head.
#pragma once

#include "models/model.h"
#include "models/nn/feed_forward.h"
#include "models/nn/layer_norm_module.h"
#include "models/nn/linear.h"
#include "models/registry.h"

namespace example {

namespace models = trainer::models;
namespace nn = trainer::nn;

struct Config {
  int64_t vocab_size = 0, hidden_size = 64, num_hidden_layers = 2;
  double dropout = 0.1;
  std::vector<std::string> labels;
};

/// x + dropout(fc2(gelu(fc1(norm(x))))): one unit of FSDP.
class BagOfWordsLayer : public nn::Module {
 public:
  explicit BagOfWordsLayer(const Config& config);

 protected:
  nn::RowsList forward(const nn::RowsList& inputs, const nn::Pass& pass) override;

 private:
  double dropout_;
  nn::Slot<nn::LayerNorm> norm_;
  nn::Slot<nn::Linear> fc1_, fc2_;
};

class BagOfWords : public models::Model {
 public:
  explicit BagOfWords(const Config& config);

  at::Tensor logits(const models::Batch& batch, const nn::Pass& pass) override;
  int64_t vocabulary() const override { return config_.vocab_size; }
  std::vector<std::string> labels() const override { return config_.labels; }
  std::vector<nn::Module*> blocks() override;
  std::vector<std::string> default_lora_targets() const override { return {"fc1", "fc2"}; }
  std::string output_head() const override { return "classifier"; }
  std::string config_json() const override;

 protected:
  nn::RowsList forward(const nn::RowsList& inputs, const nn::Pass& pass) override;

 private:
  Config config_;
  nn::Slot<nn::Embedding> embedding_;
  nn::Slot<nn::List<BagOfWordsLayer>> layers_;
  nn::Slot<nn::Linear> classifier_;
};

std::unique_ptr<models::Model> build(const models::BuildRequest& request);

}  // namespace example
