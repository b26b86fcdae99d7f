// Prefix tuning: learned keys and values in front of every sample's own, in the self-attention of every block (of every
// decoder block in an encoder-decoder model).
#include "engine/adapters/config_json.h"
#include "engine/adapters/layers.h"
#include "engine/adapters/model_facts.h"
#include "engine/adapters/prefix_encoder.h"
#include "engine/base/errors.h"
#include "models/nn/prefix.h"

namespace trainer::adapters {
namespace {

/// The module that contains all blocks with a prefix and assigns their tokens' positions.
nn::Module& blocks_owner(models::Model& model) {
  std::string path = model.base_prefix();
  if (!path.empty()) path.pop_back();
  if (model.task() == models::Task::kSeq2SeqLm) path += path.empty() ? "decoder" : ".decoder";
  nn::Module* found = nullptr;
  model.visit([&](nn::Module& module) {
    if (module.path() == path) found = &module;
  });
  require(found != nullptr && found != &model, "no module {} for the prefix", path);
  return *found;
}

// Note [The prefix of a decoder]
// For encoder-decoder models, PEFT repeats a token's values twice and gives each decoder block four chunks of them:
// keys, values, and those of cross-attention, which it drops. So block i uses chunks 4i and 4i + 1 of the repeated
// values: blocks far apart share chunks, and with an even number of layers half of the chunks are unused. The same is
// done here, so that adapters are interchangeable with PEFT's.
nn::Prefix spread(const at::Tensor& numbers, const PrefixShape& shape, int64_t submodules) {
  const std::vector<at::Tensor> runs = numbers.split(shape.width, 1);
  const auto count = static_cast<int64_t>(runs.size());
  nn::Prefix prefix{shape.tokens, {}, {}};
  for (int64_t layer = 0; layer < shape.layers; ++layer) {
    const int64_t first = 2 * submodules * layer;
    prefix.keys.push_back(runs[static_cast<size_t>(first % count)]);
    prefix.values.push_back(runs[static_cast<size_t>((first + 1) % count)]);
  }
  return prefix;
}

Injected inject_prefix(models::Model& model, config::LoraConfig& options, const Encode&) {
  if (options.num_virtual_tokens < 1)
    throw ConfigError("lora.num_virtual_tokens is {}; a prefix needs at least 1", options.num_virtual_tokens);
  if (model.task() == models::Task::kImageClassification)
    throw ConfigError("lora.peft_type: PREFIX_TUNING needs a text model with self-attention");
  const PromptSizes sizes = prefix_sizes(model);
  const PrefixShape shape{options.prefix_projection, options.num_virtual_tokens, sizes.layers, sizes.width,
                          options.encoder_hidden_size > 0 ? options.encoder_hidden_size : sizes.width};
  nn::Module& owner = blocks_owner(model);
  auto encoder = std::make_shared<PrefixEncoder>(shape);
  owner.children().push_back({"prompt_encoder", encoder});
  owner.wrap([&network = *encoder, submodules = sizes.submodules](const nn::RowsList& x, const nn::Pass& pass,
                                                                  const nn::Module::Forward& next) {
    nn::Pass with = pass;
    with.prefix = std::make_shared<nn::Prefix>(spread(network(pass), network.shape(), submodules));
    return next(x, with);
  });
  model.name_tree();
  return {sizes.layers, {}};
}

nlohmann::json describe_prefix(const config::LoraConfig& o, models::Model& model, const std::string&) {
  const PromptSizes sizes = prefix_sizes(model);
  nlohmann::json file = prompt_json(o.num_virtual_tokens, sizes);
  file["encoder_hidden_size"] = o.encoder_hidden_size > 0 ? o.encoder_hidden_size : sizes.width;
  file["prefix_projection"] = o.prefix_projection;
  file["init_weights"] = nullptr;
  return file;
}

/// A prefix that is learned directly is the whole file.
std::string prefix_name(const nn::Module& module, const std::string&) {
  const auto* encoder = dynamic_cast<const PrefixEncoder*>(&module);
  return encoder != nullptr && !encoder->shape().projected ? "prompt_embeddings" : "";
}

void save_prefix(nn::Module& module, const config::LoraConfig&, AdapterFile& file) {
  const auto* encoder = dynamic_cast<const PrefixEncoder*>(&module);
  if (encoder == nullptr) return;
  const PrefixShape shape = encoder->shape();
  add_encoded(
      module, {shape.tokens, shape.numbers()}, [shape](const auto& weights) { return encode_prefix(shape, weights); },
      file);
}

}  // namespace

const KindLayers& prefix_tuning_layers() {
  static const KindLayers layers{.inject = inject_prefix,
                                 .describe = describe_prefix,
                                 .parts = {".prompt_encoder."},
                                 .root = "base_model.",
                                 .file_name = prefix_name,
                                 .save = save_prefix};
  return layers;
}

}  // namespace trainer::adapters
