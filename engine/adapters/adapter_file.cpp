#include "engine/adapters/adapter_file.h"

#include <set>

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>

#include "engine/adapters/inject.h"
#include "engine/adapters/lora_linear.h"
#include "engine/adapters/prefix_encoder.h"
#include "engine/adapters/prompt_encoder.h"

namespace trainer::adapters {
namespace {

using Tensors = std::vector<at::Tensor>;

at::Tensor as_it_is(const Tensors& parts) {
  return parts[0];
}

/// [A; A0] and [B, -B0].
void add_doubled(const LoraLinear& layer, const std::map<std::string, std::string>& names,
                 std::vector<FileTensor>& file) {
  const int64_t r = 2 * layer.shape().r, in = layer.a()->whole_shape()[1], out = layer.b()->whole_shape()[0];
  file.push_back(
      {names.at(layer.a()->name), {r, in}, {layer.a()->name, layer.start_a()->name}, [](const Tensors& parts) {
         return at::cat({parts[0], parts[1].to(parts[0].scalar_type())}, 0);
       }});
  file.push_back(
      {names.at(layer.b()->name), {out, r}, {layer.b()->name, layer.start_b()->name}, [](const Tensors& parts) {
         return at::cat({parts[0], -parts[1].to(parts[0].scalar_type())}, 1);
       }});
}

using EncodeWeights = std::function<at::Tensor(const std::map<std::string, at::Tensor>& weights)>;

/// Adds the output of `encode`, computed from the weights of `network`; these weights are not written themselves.
void add_encoded(const nn::Module& network, std::vector<int64_t> shape, const EncodeWeights& encode,
                 std::vector<FileTensor>& file, std::set<std::string>& done) {
  std::vector<std::string> local, full;
  for (const auto& [name, parameter] : network.parameters()) local.push_back(name), full.push_back(parameter->name);
  done.insert(full.begin(), full.end());
  file.push_back({"prompt_embeddings", std::move(shape), full, [encode, local](const Tensors& parts) {
                    std::map<std::string, at::Tensor> weights;
                    for (size_t i = 0; i < parts.size(); ++i) weights[local[i]] = parts[i];
                    return encode(weights);
                  }});
}

}  // namespace

std::vector<FileTensor> adapter_file(models::Model& model, const config::LoraConfig& options) {
  const auto names = adapter_names(model, options);
  std::vector<FileTensor> file;
  std::set<std::string> done;
  model.visit([&](nn::Module& module) {
    if (auto* encoder = dynamic_cast<PromptEncoder*>(&module)) {
      const PromptEncoderShape shape = encoder->shape();
      const auto encode = [shape](const auto& weights) { return encode_prompt(shape, weights); };
      add_encoded(module, {shape.tokens, shape.width}, encode, file, done);
    }
    if (auto* encoder = dynamic_cast<PrefixEncoder*>(&module)) {
      const PrefixShape shape = encoder->shape();
      const auto encode = [shape](const auto& weights) { return encode_prefix(shape, weights); };
      add_encoded(module, {shape.tokens, shape.numbers()}, encode, file, done);
    }
    auto* lora = dynamic_cast<LoraLinear*>(&module);
    if (lora == nullptr || !lora->shape().subtracts_start) return;
    add_doubled(*lora, names, file);
    done.insert({lora->a()->name, lora->b()->name});
  });
  for (const nn::ParameterPtr& p : model.all_parameters())
    if (p->trainable && done.count(p->name) == 0)
      file.push_back({names.at(p->name), p->whole_shape(), {p->name}, as_it_is});
  return file;
}

}  // namespace trainer::adapters
