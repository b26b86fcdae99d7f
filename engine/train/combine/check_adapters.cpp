#include "engine/train/combine/check_adapters.h"

#include <fmt/ranges.h>

#include <ATen/ops/equal.h>

#include "engine/adapters/lora.h"
#include "engine/base/errors.h"
#include "engine/base/first_problems.h"
#include "engine/config/names.h"

namespace trainer::train {
namespace {

using Problems = std::vector<std::string>;

/// What an adapter has besides A and B of LoRA.
void check_variant(const SourceAdapter& adapter, Problems& problems) {
  const config::LoraConfig& o = adapter.options();
  if (o.use_dora)
    problems.push_back(adapter.folder() + ": DoRA's magnitudes belong to one A and B, and can't be combined");
  if (o.init_lora_weights != "true")
    problems.push_back(
        fmt::format("{}: init_lora_weights is {}: the adapter fits modified base weights; convert it "
                    "in PEFT with path_initial_model_for_weight_conversion",
                    adapter.folder(), o.init_lora_weights));
  if (o.bias != config::LoraBias::kNone)
    problems.push_back(fmt::format("{}: bias is {}; trained biases can't be combined, in PEFT neither",
                                   adapter.folder(), config::name_of(o.bias)));
}

/// A and B of each layer against each other and against adapter_config.json.
void check_layers(const SourceAdapter& adapter, Problems& problems) {
  if (adapter.layers().empty()) problems.push_back(adapter.file().path().string() + ": has no LoRA weights");
  for (const auto& [layer, suffixes] : adapter.layers()) {
    const std::string b = layer + suffixes->b;
    if (adapter.file().find(b) == nullptr) {
      problems.push_back(fmt::format("{}: has no {}", adapter.file().path().string(), b));
      continue;
    }
    const auto &of_a = adapter.shape_of_a(layer), &of_b = adapter.shape_of_b(layer);
    const int64_t r = adapters::lora_shape(adapter.options(), layer_path(layer)).r;
    if (of_a.size() != 2 || of_b.size() != 2 || of_a[0] != r || of_b[1] != r)
      problems.push_back(fmt::format("{}: A and B of {} are {} and {}, but adapter_config.json gives the rank {}",
                                     adapter.folder(), layer, of_a, of_b, r));
  }
}

/// Two adapters that name different base models or tasks.
void check_origins(const SourceAdapter& first, const SourceAdapter& other, bool base_given, Problems& problems) {
  if (!base_given && !first.base().model.empty() && !other.base().model.empty() &&
      first.base().model != other.base().model)
    problems.push_back(fmt::format("{} was trained on {}, {} on {}; if these are the same model, name it with --base",
                                   first.folder(), first.base().model, other.folder(), other.base().model));
  if (!first.base().task.empty() && !other.base().task.empty() && first.base().task != other.base().task)
    problems.push_back(fmt::format("{} has the task {}, {} has {}", first.folder(), first.base().task, other.folder(),
                                   other.base().task));
}

void check_ranks(const SourceAdapter& first, const SourceAdapter& other, const config::Combination& how,
                 Problems& problems) {
  if (how.needs_equal_ranks() && first.rank() != other.rank())
    problems.push_back(fmt::format("the rank of {} is {}, of {} {}; {} needs equal ranks, svd and cat don't",
                                   first.folder(), first.rank(), other.folder(), other.rank(), how.name));
}

/// The layers that both change.
void check_shared(const SourceAdapter& first, const SourceAdapter& other, const config::Combination& how,
                  Problems& problems) {
  for (const auto& [layer, suffixes] : other.layers()) {
    if (first.layers().count(layer) == 0) continue;
    const auto &a = first.shape_of_a(layer), &b = first.shape_of_b(layer);
    const auto &other_a = other.shape_of_a(layer), &other_b = other.shape_of_b(layer);
    if (a[1] != other_a[1] || b[0] != other_b[0])
      problems.push_back(fmt::format("{} is [{}, {}] in {}, and [{}, {}] in {}: they were trained on different models",
                                     layer, b[0], a[1], first.folder(), other_b[0], other_a[1], other.folder()));
    else if (how.needs_equal_ranks() && first.rank() == other.rank() && a[0] != other_a[0])
      problems.push_back(
          fmt::format("the rank of {} is {} in {}, and {} in {}; {} needs equal ranks, svd and cat don't", layer, a[0],
                      first.folder(), other_a[0], other.folder(), how.name));
  }
}

void check_whole(const SourceAdapter& first, const SourceAdapter& other, Problems& problems) {
  for (const std::string& name : other.whole())
    if (first.file().find(name) != nullptr && !at::equal(first.fp32(name), other.fp32(name)))
      problems.push_back(fmt::format("{} and {} both replace {} (modules_to_save), with different values",
                                     first.folder(), other.folder(), name));
}

}  // namespace

void check_adapters(const SourceAdapters& adapters, const CombineRequest& request) {
  Problems problems;
  for (const auto& adapter : adapters) check_variant(*adapter, problems), check_layers(*adapter, problems);
  const bool sound = problems.empty();  // the shapes below are known
  for (size_t i = 0; i < adapters.size(); ++i)
    for (size_t k = i + 1; k < adapters.size(); ++k) {
      const SourceAdapter &first = *adapters[i], &other = *adapters[k];
      if (i == 0) check_origins(first, other, !request.base.empty(), problems);
      if (i == 0) check_ranks(first, other, *request.how, problems);
      if (sound) check_shared(first, other, *request.how, problems), check_whole(first, other, problems);
    }
  if (!problems.empty()) throw ConfigError("these adapters can't be combined:{}", first_problems(problems));
}

}  // namespace trainer::train
