// Sequence parallel: tensor-parallel ranks also split the activations between regions (Korthikanti et al. 2022,
// Megatron).
#pragma once

#include "engine/dist/mesh.h"
#include "models/model.h"

namespace trainer::parallel {

// Note [Rows between regions]
// A stack of blocks gives each rank of the tensor axis a slice of the batch's rows: norms, dropout and the residual
// stream work on these only. A region (Note [Shared layers]) begins with an all-gather of its input and ends with a
// reduce-scatter of its output, which together send as much as the all-reduce that they replace. The gathered input is
// not saved for backward: its memory is freed at the end of the region and filled by another all-gather when the
// region's backward begins. After the stack, all ranks have all rows again. In decoding, each rank has all rows.

/// Enables sequence parallelism. Call after split_layers; does nothing without tensor-parallel ranks.
void share_rows(models::Model& model, const dist::MeshPtr& mesh);

/// Whether these are this rank's slice of the rows, between two regions.
bool is_sequence_slice(const nn::Rows& rows);

/// Runs a region in the sequence-parallel case: gathers x[0], this rank's slice, to all rows.
nn::RowsList gather_region_input(nn::RowsList x, const nn::Pass& pass, const nn::Module::Forward& next);

}  // namespace trainer::parallel
