// Tensor parallel: ranks share each layer of a model (models/tensor_plan.h says how its family may be cut).
#pragma once

#include <vector>

#include "engine/dist/mesh.h"
#include "models/model.h"

namespace trainer::parallel {

// Note [Shared layers]
// Every rank of the tensor axis works on the same rows. What enters a region is the same on all of them; each goes
// through its own columns, then through the rows that go with them, which gives a share of the output: the shares are
// added up, and the bias comes after. Backward is the mirror image: what leaves has the same gradient everywhere, and
// the gradients of what entered are added up. So a block costs two sums forward and two backward, each of [T, D].
// Weights that are whole inside of a region (LoRA's A before columns and B behind rows, norms of queries) see a share
// of the work only, so their gradients are shares of a sum as well (Parameter::summed). Dropout draws by the number
// that an element, or a head, has in the whole layer. The vocabulary is shared too: an embedding looks up its own
// tokens and adds up, and the loss needs a few numbers a row of each peer instead of logits.

/// Errors: ConfigError with both values when `ranks` ranks cannot share the layers of `model`.
void check_layers_split(models::Model& model, int64_t ranks);

/// Cuts the layers of `model`, which has its adapters but no values yet: parameters become this rank's parts, and
/// modules talk to the other ranks of the mesh's tensor axis. Nothing happens when there are none.
void split_layers(models::Model& model, const dist::MeshPtr& mesh);

/// Collective. Adds up gradients of which each of `peers` has a share, in place.
void sum_shares(const std::vector<at::Tensor>& shares, dist::Comm& peers);

}  // namespace trainer::parallel
