// Context parallel: ranks share the rows of each sample, and exchange the keys and values of its attention.
#pragma once

#include "engine/dist/mesh.h"
#include "models/model.h"

namespace trainer::parallel {

// Note [Shared samples]
// Every sample is cut into twice as many stretches as there are ranks on the context axis. Rank r has the r-th one and
// the r-th one from the end: as a token sees those before it, all ranks then have as much to do. A rank runs the model
// on its rows; only attention needs the others', whose keys and values are gathered (models/nn/shared_rows.h). Losses
// and gradients are sums over tokens, so they are added up over these ranks as over those that see different samples.

/// Errors: ConfigError when `ranks` ranks cannot share the samples of `model`.
void check_samples_shared(const models::Model& model, int64_t ranks);

/// This rank's rows of `batch`, all of which every rank of the context axis has; `batch` itself when there is one.
models::Batch own_rows(const models::Batch& batch, const dist::MeshPtr& mesh);

}  // namespace trainer::parallel
