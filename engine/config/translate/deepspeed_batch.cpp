// The three batch sizes of a ds_config.json. Any two determine the third.
#include <algorithm>

#include "engine/config/translate/deepspeed.h"

namespace trainer::config {
namespace {

const std::string kMicro = "training.per_device_train_batch_size";
const std::string kSteps = "training.gradient_accumulation_steps";

/// The factor that, times `others`, makes `product`; nullopt if there is no such integer.
std::optional<int64_t> missing_factor(int64_t product, double others) {
  const double factor = double(product) / others;
  if (factor < 1 || factor != double(int64_t(factor))) return std::nullopt;
  return int64_t(factor);
}

}  // namespace

void translate_batch(Draft& draft, DsDocument& ds) {
  ds.set("train_micro_batch_size_per_gpu", kMicro);
  ds.set("gradient_accumulation_steps", kSteps);
  const GivenKey batch = ds.key("train_batch_size");
  if (!ds.config().train_batch_size.given || ds.failed("train_batch_size")) return;
  if (draft.problems.about(kMicro) || draft.problems.about(kSteps)) return;

  const TrainingConfig& training = draft.config.training;
  const int64_t product = ds.config().train_batch_size.value;
  const int64_t ranks = std::max<int64_t>(1, draft.config.num_processes);
  const bool has_micro = draft.is_set(kMicro), has_steps = draft.is_set(kSteps);
  const int64_t micro = has_micro ? training.per_device_train_batch_size : 1;
  const int64_t steps = has_steps ? training.gradient_accumulation_steps : 1;
  const double known = double(micro) * double(steps) * double(ranks);
  const auto factor = missing_factor(product, known);
  if (!factor || (has_micro && has_steps && *factor != 1)) {
    std::string terms = has_micro ? fmt::format("train_micro_batch_size_per_gpu {} x ", micro) : "";
    if (has_steps) terms += fmt::format("gradient_accumulation_steps {} x ", steps);
    draft.problems.add(
        batch.mark, batch.key,
        fmt::format("{} is {}, but {}{} ranks is {}{}: set two of the three sizes, or sizes that match", batch.key,
                    product, terms, ranks, known, has_micro && has_steps ? "" : ", which doesn't divide it"),
        "batch-product");
    return;
  }
  Translation translation(draft);
  if (!has_micro) {
    translation.set(batch, kMicro, encode(*factor));
    if (!has_steps) translation.set(batch, kSteps, encode(int64_t{1}));
  } else if (!has_steps) {
    translation.set(batch, kSteps, encode(*factor));
  }
}

}  // namespace trainer::config
