// Linear layers with an activation between them, for images: the smallest family, and the example of
// docs/adding_a_model.md.
#pragma once

#include "models/mlp/config.h"
#include "models/model.h"
#include "models/nn/linear.h"

namespace trainer::models::mlp {

/// fc1, activation, fc2, …: maps each image's pixels [input_size] to one logit per class.
class Mlp : public Model {
 public:
  explicit Mlp(const MlpConfig& config);

  /// One row per sample, laid out by batch.source.
  at::Tensor logits(const Batch& batch, const nn::Pass& pass) override;
  int64_t vocabulary() const override { return 0; }
  int64_t features() const override { return config_.input_size; }
  std::vector<std::string> labels() const override { return config_.labels; }
  std::vector<nn::Module*> blocks() override { return {}; }
  std::vector<std::string> default_lora_targets() const override;
  std::string output_head() const override;
  std::string config_json() const override { return mlp::config_json(config_); }

 protected:
  nn::RowsList forward(const nn::RowsList& inputs, const nn::Pass& pass) override;

 private:
  MlpConfig config_;
  std::vector<nn::Slot<nn::Linear>> layers_;
};

std::unique_ptr<Model> build(const BuildRequest& request);

}  // namespace trainer::models::mlp
