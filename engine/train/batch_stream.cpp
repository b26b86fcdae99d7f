#include "engine/train/batch_stream.h"

#include "engine/batching/collate.h"
#include "engine/train/update_plan.h"

namespace trainer::train {

BatchStream::BatchStream(const data::Samples& samples, const config::Config& config, int64_t global_batch, int rank,
                         int ranks, at::Device device)
    : samples_(samples),
      options_(config.training),
      order_(order_of(config, samples, global_batch)),
      updates_(order_.size(), global_batch),
      rank_(rank),
      ranks_(ranks),
      on_device_(!device.is_cpu()) {}

UpdateBatch BatchStream::next(int64_t consumed) const {
  const auto index_of = [this](int64_t position) { return order_.sample(position); };
  UpdateBatch update;
  update.positions = updates_.next(consumed);
  std::vector<int64_t> tokens;  // of each sample; cached, since a corpus may have to read a sample to count them
  for (int64_t p = update.positions.begin; p < update.positions.end; ++p) {
    const int64_t index = index_of(p);
    update.target_tokens += samples_.loss_terms(index);
    tokens.push_back(samples_.tokens(index));
    update.tokens += tokens.back();
  }
  const auto tokens_of = [&](int64_t p) { return tokens[static_cast<size_t>(p - update.positions.begin)]; };
  const data::PackingPlan plan = plan_update(options_, tokens_of, update.positions, ranks_);
  for (const auto& positions : plan[static_cast<size_t>(rank_)])
    update.micro_batches.push_back(batching::collate(samples_, positions, index_of, on_device_));
  update.efficiency = data::packing_efficiency(plan, tokens_of);
  update.digest = data::order_digest(order_, update.positions);
  return update;
}

}  // namespace trainer::train
