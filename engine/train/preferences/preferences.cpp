#include "engine/train/preferences/preferences.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>

#include "data/sampler/shares.h"
#include "engine/base/errors.h"
#include "engine/base/folder_lock.h"
#include "engine/base/listed.h"
#include "engine/base/log.h"
#include "engine/checkpoint/checkpoint_folder.h"
#include "engine/checkpoint/manifest.h"
#include "engine/prepare/run_length.h"
#include "engine/train/preferences/pairs_with_reference.h"
#include "engine/train/preferences/reference.h"
#include "engine/train/preferences/reference_file.h"
#include "engine/train/start.h"
#include "engine/train/update_plan.h"

namespace trainer::train {
namespace fs = std::filesystem;
namespace {

/// The output folder that a checkpoint is in.
fs::path run_of(const fs::path& checkpoint) {
  const fs::path folder = fs::absolute(checkpoint).lexically_normal();
  return (folder.has_filename() ? folder : folder.parent_path()).parent_path();
}

/// Adds log-probabilities to the sets of pairs of a run. Every rank makes the same calls.
class References {
 public:
  References(const config::Plan& plan, parallel::ParallelModel& model)
      : config_(plan.config), model_(model), comm_(model.comm()), start_(agreed_start(config_, comm_)) {
    if (!is_first() || start_ == Start::kFromScratch) return;  // what an earlier run has left is not this run's
    stored_ = read_reference(start_ == Start::kNamed ? run_of(config_.checkpoint.resume_from_checkpoint)
                                                     : fs::path(config_.output_dir));
  }

  /// Replaces `samples` by those with log-probabilities of the pairs `needed`.
  void add(const std::string& name, std::shared_ptr<const data::Samples>& samples, const std::vector<int64_t>& needed,
           ReferenceBatches batches) {
    if (samples->empty()) return;
    const std::string digest = is_first() ? digest_of(*samples) : "";
    const at::Tensor log_probs = stored(name, digest, samples->size());
    const auto* const value = log_probs.const_data_ptr<double>();
    std::vector<int64_t> missing;
    for (const int64_t index : needed)
      if (std::isnan(value[2 * index])) missing.push_back(index);
    if (!missing.empty()) {
      if (is_first())
        log::info("reference: the log-probabilities of {} ({}), by the model that the run starts from",
                  counted(missing.size(), "pair", "pairs"), name);
      const at::Tensor found = reference_log_probs(model_, *samples, missing, batches);
      for (const int64_t index : missing)
        std::copy_n(found.const_data_ptr<double>() + 2 * index, 2, log_probs.mutable_data_ptr<double>() + 2 * index);
      is_new_ = true;
    }
    stored_[name] = {digest, log_probs};
    samples = std::make_shared<PairsWithReference>(std::move(samples), log_probs);
  }

  void save() {
    if (!is_first() || (!is_new_ && start_ != Start::kNamed)) return;
    FolderOwner::from_environment(config_.output_dir).require();
    write_reference(config_.output_dir, stored_);
  }

  /// The most samples of an update: a run that resumes keeps the global batch of its checkpoint.
  int64_t largest_global_batch(int64_t ranks) const {
    int64_t largest = prepare::global_batch(config_.training, ranks);
    if (is_first() && start_ != Start::kFromScratch)
      for (const fs::path& folder : checkpoints()) largest = std::max(largest, global_batch_of(folder));
    return static_cast<int64_t>(comm_.max(static_cast<double>(largest)));
  }

 private:
  bool is_first() const { return comm_.rank() == 0; }

  /// The first rank's log-probabilities on every rank; NaN where it has none of these samples.
  at::Tensor stored(const std::string& name, const std::string& digest, int64_t size) const {
    at::Tensor log_probs = at::full({size, 2}, std::numeric_limits<double>::quiet_NaN(), at::kDouble);
    const auto found = stored_.find(name);
    if (found != stored_.end() && found->second.digest == digest && found->second.log_probs.size(0) == size)
      log_probs = found->second.log_probs;
    comm_.broadcast(log_probs, 0);
    return log_probs;
  }

  std::vector<fs::path> checkpoints() const {
    if (start_ == Start::kNamed) return {config_.checkpoint.resume_from_checkpoint};
    std::vector<fs::path> folders;
    for (const checkpoint::Found& found : checkpoint::find_checkpoints(config_.output_dir))
      folders.push_back(found.folder);
    return folders;
  }

  /// 0 for a damaged checkpoint, which is not resumed from.
  static int64_t global_batch_of(const fs::path& folder) {
    try {
      return checkpoint::read_manifest(folder.string()).progress.global_batch;
    } catch (const InputError&) {
      return 0;
    }
  }

  const config::Config& config_;
  parallel::ParallelModel& model_;
  dist::Comm& comm_;
  Start start_;
  StoredReferences stored_;  // complete on the first rank only
  bool is_new_ = false;
};

std::vector<int64_t> all_of(const data::Samples& samples) {
  std::vector<int64_t> indices;
  for (int64_t i = 0; i < samples.size(); ++i) indices.push_back(i);
  return indices;
}

/// The samples that the run reads, ascending: not all of them if max_steps ends it within the first epoch.
std::vector<int64_t> read_by_run(const config::Config& config, const data::Samples& samples, int64_t global_batch) {
  const int64_t steps = config.training.max_steps;
  const data::SampleOrder order = order_of(config, samples, global_batch);
  if (steps <= 0 || steps >= data::Updates(order.size(), global_batch).per_epoch()) return all_of(samples);
  std::vector<int64_t> indices;
  for (int64_t position = 0; position < steps * global_batch; ++position) indices.push_back(order.sample(position));
  std::sort(indices.begin(), indices.end());
  indices.erase(std::unique(indices.begin(), indices.end()), indices.end());
  return indices;
}

}  // namespace

void add_reference(const config::Plan& plan, prepare::Inputs& inputs, parallel::ParallelModel& model) {
  const config::TrainingConfig& t = plan.config.training;
  References references(plan, model);
  data::Datasets& datasets = inputs.datasets;
  const int64_t global_batch = references.largest_global_batch(model.mesh().data().size());
  references.add("train", datasets.train, read_by_run(plan.config, *datasets.train, global_batch),
                 {t.per_device_train_batch_size, t.max_tokens});
  references.add("validation", datasets.validation, all_of(*datasets.validation), {t.per_device_eval_batch_size, 0});
  references.save();
}

nn::PreferenceOptions preference_options(const config::DpoConfig& options) {
  const auto kind = [&] {
    switch (options.loss_type) {
      case config::PreferenceLoss::kRobust:
        return nn::PreferenceKind::kRobust;
      case config::PreferenceLoss::kHinge:
        return nn::PreferenceKind::kHinge;
      case config::PreferenceLoss::kIpo:
        return nn::PreferenceKind::kIpo;
      case config::PreferenceLoss::kSigmoidNorm:
        return nn::PreferenceKind::kSigmoidNorm;
      case config::PreferenceLoss::kSigmoid:
        break;
    }
    return nn::PreferenceKind::kSigmoid;
  };
  return {kind(), options.beta, options.label_smoothing, options.rpo_alpha};
}

void compare_pairs(const config::Config& config, nn::Pass& pass) {
  if (!config.dpo) return;
  pass.preference = preference_options(*config.dpo);
  pass.rewards = std::make_shared<nn::RewardSums>();
}

std::vector<double> reward_sums(const nn::Pass& pass) {
  if (!pass.rewards) return {};
  const at::Tensor sums = pass.rewards->sums();
  return {sums.const_data_ptr<double>(), sums.const_data_ptr<double>() + sums.numel()};
}

std::map<std::string, double> reward_metrics(const std::vector<double>& sums) {
  if (sums.empty()) return {};
  const at::Tensor values = at::empty({static_cast<int64_t>(sums.size())}, at::kDouble);
  std::copy(sums.begin(), sums.end(), values.mutable_data_ptr<double>());
  return nn::reward_metrics(values);
}

}  // namespace trainer::train
