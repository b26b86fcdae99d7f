#include "engine/train/dry_model.h"

#include <ATen/ops/empty.h>

#include "engine/train/device_layers.h"
#include "engine/train/parallelism.h"

namespace trainer::train {
namespace {

/// Gives weights the dtypes of `source`, but no values.
class DrySource : public parallel::WeightSource {
 public:
  explicit DrySource(const parallel::WeightSource& source) : source_(source) {}
  nn::Storage storage(const nn::Parameter& parameter) const override { return source_.storage(parameter); }
  void read(const nn::Parameter&, int64_t, int64_t, const at::Tensor&) const override {}

 private:
  const parallel::WeightSource& source_;
};

}  // namespace

DryModel::DryModel(const config::Plan& given, Blueprint blueprint, dist::Transport transport, int64_t stage)
    : blueprint_(std::move(blueprint)) {
  config::Plan plan = given;
  if (!dist::on_devices(transport))
    plan.config.fsdp_config.offload_params = plan.config.training.activation_offloading = false;
  if (dist::on_devices(transport)) device_.emplace(kernels_of_dry_runs(), cudnn_in_dry_runs());
  if (plan.config.deterministic) own_masks_.emplace();
  blueprint_.sources.push_back(std::make_unique<DrySource>(blueprint_.source()));
  blueprint_.started_from_scratch.clear();  // nothing is initialized
  const int64_t ranks = plan.world_size(), first_rank = stage * ranks / degrees_of(plan).pipeline;
  comm_ = dist::dry_comm(static_cast<int>(first_rank), static_cast<int>(ranks), transport);
  model_ = make_parallel(plan, blueprint_, *comm_);
}

at::Tensor dry_ids(int64_t count) {
  return at::empty({count}, at::TensorOptions(at::kLong).device(at::kMeta));
}

models::Batch dry_batch(const BatchLengths& lengths, data::LabelKind kind, int64_t features) {
  auto source = std::make_shared<nn::Layout>(), target = std::make_shared<nn::Layout>();
  for (const int64_t length : lengths.source) source->append(length, 0);
  for (const int64_t length : lengths.target) target->append(length, 0);
  if (kind == data::LabelKind::kNext) target = source;
  models::Batch batch{dry_ids(features > 0 ? 0 : source->tokens()), dry_ids(target->tokens()), source, target,
                      lengths.learned};
  if (features > 0)
    batch.pixels = at::empty({source->samples(), features}, at::TensorOptions(at::kFloat).device(at::kMeta));
  return batch;
}

}  // namespace trainer::train
