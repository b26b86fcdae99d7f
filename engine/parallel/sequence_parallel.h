// Sequence parallel: ranks that share layers share the rows between these too (Megatron's; Korthikanti et al. 2022).
#pragma once

#include "engine/dist/mesh.h"
#include "models/model.h"

namespace trainer::parallel {

// Note [Rows between regions]
// A stack of blocks gives each rank of the tensor axis a stretch of the batch's rows: norms, dropouts and the residual
// stream are of these only. A region (Note [Shared layers]) begins by gathering what enters it, and what leaves is
// added up by rows, so that as much is sent as before. The gathered input is not kept for the backward: its memory goes
// when the region is left, and comes back, gathered once more, when the region's backward begins. After the stack all
// ranks have all rows again. While decoding, each rank has all rows.

/// From now on the ranks share rows. After split_layers; nothing happens when no ranks share layers.
void share_rows(models::Model& model, const dist::MeshPtr& mesh);

/// What a region does with its own rows of x[0], where pass.stream says that there are such: it works on all of them.
nn::Tensors enter_with_own_rows(nn::Tensors x, const nn::Pass& pass, const nn::Module::Forward& next);

}  // namespace trainer::parallel
