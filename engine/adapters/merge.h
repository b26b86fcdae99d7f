// Merges adapters into the weights of the layers they change.
#pragma once

#include <functional>

#include "engine/adapters/inject.h"
#include "models/nn/linear.h"

namespace trainer::adapters {

/// The weights that the adapters of `model` change, with the adapters merged into them: in fp32, in the shape in which
/// files store them. Their names are those of the adapted layers. So for a tied weight, of which only one layer has an
/// adapter, the name is that layer's, and the other layers keep the weight. `model` must outlive the result.
/// Errors: ConfigError for a kind that can't be merged.
DerivedWeights merged_weights(models::Model& model, const config::LoraConfig& options);

/// The weight of a linear layer as a matrix [out, in], however it is stored.
at::Tensor matrix_of(const nn::Linear& layer, const ReadWeight& read);

/// The only entry, the layer's weight: `merge` computes its matrix [out, in] with the adapter from the one without.
DerivedWeights merged_matrix(const nn::Linear& layer,
                             std::function<at::Tensor(const at::Tensor& matrix, const ReadWeight& read)> merge);

/// The name of `module`'s own parameter.
std::string name_in(const nn::Module& module, const char* parameter);

}  // namespace trainer::adapters
