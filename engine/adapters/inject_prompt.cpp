#include "engine/adapters/inject_prompt.h"

#include <ATen/ops/embedding.h>
#include <ATen/ops/empty.h>

#include "engine/adapters/model_facts.h"
#include "engine/adapters/prompt_embedding.h"
#include "engine/base/errors.h"
#include "models/nn/philox.h"

namespace trainer::adapters {
namespace {

/// The slot of the embedding that a sample's tokens go through: the encoder's own, if there is an encoder.
nn::Module::Child& input_embedding(models::Model& model) {
  nn::Module::Child* found = nullptr;
  const bool has_encoder = model.task() == models::Task::kSeq2SeqLm;
  model.visit([&](nn::Module& parent) {
    for (nn::Module::Child& child : parent.children()) {
      const auto* embedding = dynamic_cast<nn::Embedding*>(child.module.get());
      if (found != nullptr || embedding == nullptr) continue;
      if (embedding->weight()->shape[0] != model.vocabulary()) continue;
      if (!has_encoder || child.module->path().starts_with("encoder.")) found = &child;
    }
  });
  if (found == nullptr) throw ConfigError("lora.peft_type: a prompt needs a text model with an input embedding");
  return *found;
}

at::Tensor as_tensor(const std::vector<int64_t>& ids) {
  const at::Tensor tensor = at::empty({static_cast<int64_t>(ids.size())}, at::kLong);
  std::copy(ids.begin(), ids.end(), tensor.data_ptr<int64_t>());
  return tensor;
}

/// The text's tokens, repeated or truncated to `count`.
std::vector<int64_t> text_ids(const std::string& text, int64_t count, const Encode& encode) {
  require(static_cast<bool>(encode), "prompt_tuning_init TEXT without a tokenizer");
  const std::vector<int32_t> ids = encode(text);
  if (ids.empty()) throw ConfigError("lora.prompt_tuning_init_text: '{}' has no tokens", text);
  std::vector<int64_t> all;
  for (int64_t i = 0; i < count; ++i) all.push_back(ids[static_cast<size_t>(i) % ids.size()]);
  return all;
}

std::vector<int64_t> random_ids(int64_t count, int64_t vocabulary) {
  const nn::PhiloxKey key = nn::philox_key(0, "lora.prompt_tuning_init SAMPLE_VOCAB");
  std::vector<int64_t> all;
  for (int64_t i = 0; i < count; ++i) {
    const uint32_t counter[4] = {static_cast<uint32_t>(i), 0, 0, 0};
    uint32_t words[4];
    nn::philox_words(key, counter, words);
    all.push_back(static_cast<int64_t>(words[0]) % vocabulary);
  }
  return all;
}

/// Initializes the prompt with rows of the embedding.
void start_as_words(const PromptEmbedding& embedding, const config::LoraConfig& options, const Encode& encode,
                    Starts& starts) {
  const int64_t count = embedding.prompt()->shape[0];
  const nn::ParameterPtr table = embedding.weight();
  const bool text = options.prompt_tuning_init == "TEXT";
  starts[embedding.prompt()->name] = [=, init_text = options.prompt_tuning_init_text](const ReadWeight& read) {
    const auto ids = text ? text_ids(init_text, count, encode) : random_ids(count, table->shape[0]);
    return at::embedding(read(*table), as_tensor(ids));
  };
}

PromptEncoderShape encoder_shape(const config::LoraConfig& options, int64_t tokens, int64_t width) {
  PromptEncoderShape shape{options.encoder_reparameterization_type == "LSTM", tokens, width,
                           options.encoder_hidden_size > 0 ? options.encoder_hidden_size : width};
  shape.lstm_layers = options.encoder_num_layers;
  return shape;
}

}  // namespace

Injected inject_prompt(models::Model& model, config::LoraConfig& options, const Encode& encode) {
  if (options.num_virtual_tokens < 1)
    throw ConfigError("lora.num_virtual_tokens is {}; a prompt needs at least 1", options.num_virtual_tokens);
  const PromptSizes sizes = prompt_sizes(model);
  const int64_t tokens = options.num_virtual_tokens * sizes.submodules;
  nn::Module::Child& place = input_embedding(model);
  const auto& base = static_cast<const nn::Embedding&>(*place.module);
  const int64_t width = base.weight()->shape[1];
  std::shared_ptr<PromptEmbedding> embedding;
  if (options.peft_type == "P_TUNING")
    embedding = std::make_shared<PromptEmbedding>(base, encoder_shape(options, tokens, width));
  else
    embedding = std::make_shared<PromptEmbedding>(base, tokens);
  place.module = embedding;
  model.name_tree();
  Injected injected{1, {}};
  if (embedding->prompt() && options.prompt_tuning_init != "RANDOM")
    start_as_words(*embedding, options, encode, injected.starts);
  return injected;
}

int64_t virtual_tokens(const config::LoraConfig& options) {
  const bool prompt = options.peft_type == "PROMPT_TUNING" || options.peft_type == "P_TUNING";
  return prompt ? options.num_virtual_tokens : 0;
}

}  // namespace trainer::adapters
