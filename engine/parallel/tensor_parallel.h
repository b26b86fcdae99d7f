// Tensor parallel: splits each layer of a model over ranks (models/tensor_plan.h defines how, for each family).
#pragma once

#include <vector>

#include "engine/dist/mesh.h"
#include "models/model.h"

namespace trainer::parallel {

// Note [Shared layers]
// Every rank of the tensor axis works on the same rows. A region's input is replicated; each rank applies its columns
// of the first layers, then the matching rows of the last layer, which gives a partial output: the partial outputs are
// all-reduced, then the bias is added. Backward mirrors this: the gradient of the output is replicated, and the partial
// gradients of the input are all-reduced. So a block costs two all-reduces in forward and two in backward, each of
// [T, D]. Unsplit weights inside a region (LoRA's A before column-parallel layers and B after row-parallel ones, norms
// of queries) see only part of the work, so their gradients are partial too (Parameter::partial_grad). Dropout draws by
// the index that an element, or a head, has in the whole layer. The vocabulary is split too: an embedding looks up its
// own tokens and all-reduces, and the loss exchanges a few values per row instead of logits.

/// The slices that `ranks` tensor-parallel ranks will have of each weight whose inputs they share. No values.
std::vector<nn::Parameter> slices_of_inputs(models::Model& model, int64_t ranks);

/// Errors: ConfigError with both values if the layers of `model` cannot be split over `ranks` ranks.
void check_layers_split(models::Model& model, int64_t ranks);

/// Splits the layers of `model`, which has its adapters but no values yet: parameters become this rank's slices, and
/// modules communicate over the mesh's tensor axis. Does nothing if the axis has one rank.
void split_layers(models::Model& model, const dist::MeshPtr& mesh);

/// Collective. Sums partial gradients over `peers`, in place.
void sum_partial_grads(const std::vector<at::Tensor>& shares, dist::Comm& group);

}  // namespace trainer::parallel
