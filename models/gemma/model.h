// Gemma 1, 2 and 3 (text only): LLaMA's layers with the differences that models/llama/config.h lists.
#pragma once

#include "models/gemma/config.h"
#include "models/llama/model.h"

namespace trainer::models::gemma {

class GemmaModel : public llama::LlamaModel {
 public:
  explicit GemmaModel(const Config& config) : LlamaModel(config), config_(config) {}
  std::string config_json() const override { return gemma::config_json(config_); }

 private:
  Config config_;
};

template <Generation generation>
std::unique_ptr<Model> build(const BuildRequest& request) {
  return std::make_unique<GemmaModel>(parse_config(request, generation));
}

}  // namespace trainer::models::gemma
