#include "engine/parallel/context_parallel.h"

#include <ATen/TensorOperators.h>

#include "engine/base/errors.h"
#include "engine/parallel/mesh_group.h"
#include "models/decoder_model.h"
#include "models/nn/split_rows.h"

namespace trainer::parallel {
namespace {

/// Slice number `n` of `of` of a sample.
nn::Range part_of(int64_t length, int64_t n, int64_t of) {
  return {length * n / of, length * (n + 1) / of};
}

/// The slices of every sample that `rank` of `ranks` has: the first slices of all samples, then the last ones.
nn::Layout rows_of(const nn::Layout& all, int64_t rank, int64_t ranks, std::vector<nn::Range>& rows) {
  nn::Layout mine;
  for (const int64_t n : {rank, 2 * ranks - 1 - rank})
    for (int64_t s = 0; s < all.samples(); ++s) {
      const nn::Span span = all.spans[static_cast<size_t>(s)];
      const nn::Range tokens = part_of(span.length, n, 2 * ranks);
      mine.append(tokens.end - tokens.begin, all.sample_index[static_cast<size_t>(s)]);
      mine.slices.push_back({tokens.begin, span.length});
      rows.push_back({span.begin + tokens.begin, span.begin + tokens.end});
    }
  return mine;
}

}  // namespace

void check_samples_shared(const models::Model& model, int64_t ranks) {
  if (ranks == 1) return;
  const char* const key = "parallelism_config.parallelism_config_cp_size";
  if (dynamic_cast<const models::DecoderModel*>(&model) == nullptr)
    throw ConfigError(
        "{} is {}, but {} does not support context parallelism; the LLaMA family and GPT-2, whose tokens attend only "
        "to earlier ones, do.",
        key, ranks, model.class_name());
  if (model.classifies())
    throw ConfigError("{} is {}, but {} reads a sample's class at its last token, which one rank has; set it to 1.",
                      key, ranks, model.class_name());
}

models::Batch own_rows(const models::Batch& batch, const dist::MeshPtr& mesh) {
  const int64_t ranks = mesh->context().size();
  if (ranks == 1) return batch;
  std::vector<std::vector<nn::Range>> rows(static_cast<size_t>(ranks));
  auto mine = std::make_shared<nn::Layout>();
  for (int64_t rank = 0; rank < ranks; ++rank) {
    nn::Layout of_rank = rows_of(*batch.source, rank, ranks, rows[static_cast<size_t>(rank)]);
    if (rank == mesh->context().rank()) *mine = std::move(of_rank);
  }
  mine->whole = batch.source;
  mine->shared = std::make_shared<nn::SplitRows>(group_along(mesh, &dist::Mesh::context), rows);
  models::Batch out;
  out.source_ids = mine->shared->take(batch.source_ids);
  out.labels = mine->shared->take(batch.labels);
  out.source = out.target = mine;
  out.target_tokens = out.labels.is_meta()  // only the number of rows that count is known
                          ? std::min(batch.target_tokens, out.labels.numel())
                          : out.labels.ne(-100).sum().item<int64_t>();
  return out;
}

}  // namespace trainer::parallel
