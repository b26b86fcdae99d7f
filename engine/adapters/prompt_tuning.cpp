// Prompt tuning and P-tuning: a learned prompt in front of every sample (of the encoder's samples, if there is an
// encoder), by replacing the input embedding with a PromptEmbedding. Batches must hold the placeholders of its tokens.
#include <ATen/ops/embedding.h>
#include <ATen/ops/empty.h>

#include "engine/adapters/config_json.h"
#include "engine/adapters/layers.h"
#include "engine/adapters/model_facts.h"
#include "engine/adapters/prompt_embedding.h"
#include "engine/base/errors.h"
#include "models/nn/philox.h"

namespace trainer::adapters {
namespace {

constexpr const char* kPrompt = "prompt_embeddings";

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
                    DerivedWeights& starts) {
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

using MakeEmbedding =
    std::function<std::shared_ptr<PromptEmbedding>(const nn::Embedding& base, int64_t tokens, int64_t width)>;

std::shared_ptr<PromptEmbedding> add_prompt(models::Model& model, const config::LoraConfig& options,
                                            const MakeEmbedding& make) {
  if (options.num_virtual_tokens < 1)
    throw ConfigError("lora.num_virtual_tokens is {}; a prompt needs at least 1", options.num_virtual_tokens);
  const int64_t tokens = options.num_virtual_tokens * prompt_sizes(model).submodules;
  nn::Module::Child& place = input_embedding(model);
  const auto& base = static_cast<const nn::Embedding&>(*place.module);
  const auto embedding = make(base, tokens, base.weight()->shape[1]);
  place.module = embedding;
  model.name_tree();
  return embedding;
}

Injected inject_prompt(models::Model& model, config::LoraConfig& options, const Encode& encode) {
  const auto embedding = add_prompt(model, options, [](const nn::Embedding& base, int64_t tokens, int64_t) {
    return std::make_shared<PromptEmbedding>(base, tokens);
  });
  Injected injected{1, {}};
  if (options.prompt_tuning_init != "RANDOM") start_as_words(*embedding, options, encode, injected.starts);
  return injected;
}

Injected inject_encoder(models::Model& model, config::LoraConfig& options, const Encode&) {
  add_prompt(model, options, [&](const nn::Embedding& base, int64_t tokens, int64_t width) {
    return std::make_shared<PromptEmbedding>(base, encoder_shape(options, tokens, width));
  });
  return {1, {}};
}

nlohmann::json describe_prompt(const config::LoraConfig& o, models::Model& model, const std::string& base_model) {
  using nlohmann::json;
  const bool text = o.prompt_tuning_init == "TEXT";
  json file = prompt_json(o.num_virtual_tokens, prompt_sizes(model));
  file["prompt_tuning_init"] = o.prompt_tuning_init;
  file["prompt_tuning_init_text"] = text ? json(o.prompt_tuning_init_text) : json(nullptr);
  file["tokenizer_name_or_path"] = text ? json(base_model) : json(nullptr);
  file["tokenizer_kwargs"] = nullptr;
  return file;
}

nlohmann::json describe_encoder(const config::LoraConfig& o, models::Model& model, const std::string&) {
  const PromptSizes sizes = prompt_sizes(model);
  nlohmann::json file = prompt_json(o.num_virtual_tokens, sizes);
  file["encoder_reparameterization_type"] = o.encoder_reparameterization_type;
  file["encoder_hidden_size"] = o.encoder_hidden_size > 0 ? o.encoder_hidden_size : sizes.width;
  file["encoder_num_layers"] = o.encoder_num_layers;
  file["encoder_dropout"] = o.encoder_dropout;
  return file;
}

std::string prompt_name(const nn::Module&, const std::string& parameter) {
  return parameter == kPrompt ? kPrompt : "";
}

void save_encoder(nn::Module& module, const config::LoraConfig&, AdapterFile& file) {
  const auto* encoder = dynamic_cast<const PromptEncoder*>(&module);
  if (encoder == nullptr) return;
  const PromptEncoderShape shape = encoder->shape();
  add_encoded(
      module, {shape.tokens, shape.width}, [shape](const auto& weights) { return encode_prompt(shape, weights); },
      file);
}

}  // namespace

const KindLayers& prompt_tuning_layers() {
  static const KindLayers layers{.inject = inject_prompt,
                                 .describe = describe_prompt,
                                 .parts = {std::string(".") + kPrompt},
                                 .root = "base_model.",
                                 .placeholders = true,
                                 .file_name = prompt_name};
  return layers;
}

const KindLayers& p_tuning_layers() {
  static const KindLayers layers{.inject = inject_encoder,
                                 .describe = describe_encoder,
                                 .parts = {".prompt_encoder."},
                                 .root = "base_model.",
                                 .placeholders = true,
                                 .save = save_encoder};
  return layers;
}

}  // namespace trainer::adapters
