// Context parallel: ranks split the rows of each sample and exchange keys and values in its attention.
#pragma once

#include "engine/dist/mesh.h"
#include "models/model.h"

namespace trainer::parallel {

// Note [Shared samples]
// Every sample is split into twice as many slices as there are ranks on the context axis. Rank r has the r-th slice
// from the start and from the end: because a token attends only to earlier ones, this balances the work. A rank runs
// the model on its rows; only attention needs the others, and gathers their keys and values (models/nn/split_rows.h).
// Losses and gradients are sums over tokens, so they are summed over these ranks as over data-parallel ones.

/// Errors: ConfigError if `model` does not support context parallelism over `ranks` ranks.
void check_samples_shared(const models::Model& model, int64_t ranks);

/// This rank's rows of `batch`, which every rank of the context axis has in full; `batch` itself if there is one rank.
models::Batch own_rows(const models::Batch& batch, const dist::MeshPtr& mesh);

}  // namespace trainer::parallel
