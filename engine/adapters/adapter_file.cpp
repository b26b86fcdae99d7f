#include "engine/adapters/adapter_file.h"

#include "engine/adapters/layers.h"

namespace trainer::adapters {

void AdapterFile::add(const nn::Parameter& parameter) {
  done.insert(parameter.name);
  tensors.push_back({names.at(parameter.name).front(),
                     parameter.whole_shape(),
                     {parameter.name},
                     [](const std::vector<at::Tensor>& parts) { return parts[0]; }});
}

void add_encoded(const nn::Module& network, std::vector<int64_t> shape, const EncodeWeights& encode,
                 AdapterFile& file) {
  std::vector<std::string> local, full;
  for (const auto& [name, parameter] : network.parameters()) local.push_back(name), full.push_back(parameter->name);
  file.done.insert(full.begin(), full.end());
  file.tensors.push_back({"prompt_embeddings", std::move(shape), full, [encode, local](const auto& parts) {
                            std::map<std::string, at::Tensor> weights;
                            for (size_t i = 0; i < parts.size(); ++i) weights[local[i]] = parts[i];
                            return encode(weights);
                          }});
}

std::vector<FileTensor> adapter_file(models::Model& model, const config::LoraConfig& options) {
  AdapterFile file{adapter_names(model, options), {}, {}};
  if (const auto save = layers_of(options).save; save != nullptr)
    model.visit([&](nn::Module& module) { save(module, options, file); });
  for (const nn::ParameterPtr& p : model.all_parameters())
    if (p->trainable && file.done.count(p->name) == 0) file.add(*p);
  return std::move(file.tensors);
}

}  // namespace trainer::adapters
