#include "engine/metrics/start_panel.h"

#include <fmt/format.h>

#include "engine/base/human.h"
#include "engine/base/listed.h"
#include "engine/config/names.h"

namespace trainer::metrics {
namespace {

std::string model_text(const StartFacts& facts) {
  const std::string trained =
      facts.trained == facts.parameters
          ? "all trained"
          : fmt::format("{} trained ({:.2f} %)", human_count(static_cast<double>(facts.trained)),
                        100.0 * static_cast<double>(facts.trained) / static_cast<double>(facts.parameters));
  return fmt::format("{}: {} parameters, {}", facts.model_class, human_count(static_cast<double>(facts.parameters)),
                     trained);
}

std::string ranks_text(const config::Config& config, const StartFacts& facts) {
  std::string text = fmt::format("{} on {}", facts.ranks, facts.device);
  if (config.distributed_type != config::DistributedType::kNo)
    text += fmt::format(", {}", config::name_of(config.distributed_type));
  if (facts.units > 0)
    text += fmt::format(" {} with {}", config::name_of(config.fsdp_config.sharding_strategy),
                        counted(facts.units, "unit", "units"));
  const bool fp32 = config.mixed_precision == config::MixedPrecision::kNo;
  return text + ", computing in " + (fp32 ? "fp32" : config::name_of(config.mixed_precision));
}

std::string memory_text(const StartFacts& facts) {
  const char* const each = facts.ranks == 1 ? "" : " a rank";
  const std::string held = human_bytes(facts.rank_bytes);
  if (facts.planned_bytes == 0)
    return fmt::format("weights and gradients: {}{}; plus optimizer and activations", held, each);
  return fmt::format("{}{} at most for tensors; weights and gradients: {}", human_bytes(facts.planned_bytes), each,
                     held);
}

std::string updates_text(const config::TrainingConfig& training, const StartFacts& facts) {
  std::string batch = counted(facts.global_batch, "sample", "samples");
  const int64_t accumulated = training.gradient_accumulation_steps, each = training.per_device_train_batch_size;
  if (facts.global_batch == facts.data_ranks * accumulated * each && facts.global_batch != each) {
    batch += " = ";
    if (facts.data_ranks > 1) batch += fmt::format("{} ranks x ", facts.data_ranks);
    if (accumulated > 1) batch += fmt::format("{} accumulated x ", accumulated);
    batch += std::to_string(each);
  }
  const std::string from = facts.step > 0 ? fmt::format(", from step {} on", facts.step) : "";
  return fmt::format("{} of {}{}", facts.updates, batch, from);
}

}  // namespace

std::vector<std::string> start_panel(const config::Config& config, const StartFacts& facts) {
  std::vector<std::string> lines{"model    " + model_text(facts), "ranks    " + ranks_text(config, facts)};
  if (!facts.mesh.empty()) lines.push_back(fmt::format("mesh     {} ranks = {}", facts.ranks, facts.mesh));
  lines.push_back("memory   " + memory_text(facts));
  lines.push_back("updates  " + updates_text(config.training, facts));
  lines.push_back(fmt::format("data     {} to train on, {} for validation", counted(facts.samples, "sample", "samples"),
                              facts.validation));
  return lines;
}

}  // namespace trainer::metrics
