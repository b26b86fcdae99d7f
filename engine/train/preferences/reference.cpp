#include "engine/train/preferences/reference.h"

#include <limits>
#include <numeric>

#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include "data/sampler/packing.h"
#include "engine/batching/collate.h"
#include "engine/train/preferences/pairs_with_reference.h"

namespace trainer::train {
namespace {

data::PackingPlan plan(const data::Samples& pairs, const std::vector<int64_t>& indices, ReferenceBatches batches,
                       int64_t ranks) {
  const data::Range all{0, std::ssize(indices)};
  if (batches.tokens == 0) return data::plan_by_samples(all, ranks, batches.pairs);
  const auto tokens = [&](int64_t position) { return pairs.tokens(indices[static_cast<size_t>(position)]); };
  return data::plan_by_tokens(all, tokens, ranks, batches.tokens);
}

}  // namespace

at::Tensor reference_log_probs(parallel::ParallelModel& model, const data::Samples& pairs,
                               const std::vector<int64_t>& indices, ReferenceBatches batches) {
  dist::Comm& data = model.mesh().data();
  const auto count = static_cast<int64_t>(indices.size());
  const auto index_of = [&](int64_t position) { return indices[static_cast<size_t>(position)]; };
  const at::Tensor found = at::zeros({count, 2}, at::kDouble);  // of the positions in `indices`
  auto* const values = found.mutable_data_ptr<double>();
  const data::PackingPlan micro_batches = plan(pairs, indices, batches, data.size());
  for (const auto& positions : micro_batches[static_cast<size_t>(data.rank())]) {
    at::Tensor of_texts;
    model.run_forward({}, [&](const nn::Pass& pass) {
      of_texts = model.log_probs(batching::collate(pairs, positions, index_of), pass).cpu();
    });
    for (size_t i = 0; i < positions.size(); ++i)
      for (int64_t text = 0; text < 2; ++text)
        values[2 * positions[i] + text] = of_texts.const_data_ptr<double>()[2 * static_cast<int64_t>(i) + text];
  }
  if (count > 0) data.all_reduce(found);  // each value is on one rank and 0 on the others
  const at::Tensor all = at::full({pairs.size(), 2}, std::numeric_limits<double>::quiet_NaN(), at::kDouble);
  for (int64_t position = 0; position < count; ++position)
    for (int64_t text = 0; text < 2; ++text)
      all.mutable_data_ptr<double>()[2 * index_of(position) + text] = values[2 * position + text];
  return all;
}

std::shared_ptr<const data::Samples> with_reference(parallel::ParallelModel& model,
                                                    std::shared_ptr<const data::Samples> pairs,
                                                    const config::TrainingConfig& training) {
  std::vector<int64_t> indices(static_cast<size_t>(pairs->size()));
  std::iota(indices.begin(), indices.end(), 0);
  at::Tensor log_probs = reference_log_probs(model, *pairs, indices, {training.per_device_eval_batch_size, 0});
  return std::make_shared<PairsWithReference>(std::move(pairs), std::move(log_probs));
}

}  // namespace trainer::train
