#include "engine/train/same_inputs.h"

#include <algorithm>
#include <sstream>

#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/grad_mode.h>

#include "data/cache/content_hash.h"
#include "engine/adapters/inject.h"
#include "engine/base/errors.h"

namespace trainer::train {
namespace {

constexpr int64_t kValues = 16;   // per weight
constexpr int64_t kSamples = 64;  // per dataset

template <class T>
void append(std::string& bytes, const T* values, size_t count) {
  bytes.append(reinterpret_cast<const char*>(values), count * sizeof(T));
}

std::string short_hash(const std::string& bytes) {
  return data::text_hash(bytes).substr(0, 12);
}

std::string shapes_of(models::Model& model) {
  std::string text;
  int64_t weights = 0;
  for (const nn::ParameterPtr& p : model.all_parameters()) {
    text += p->name;
    append(text, p->shape.data(), p->shape.size());
    ++weights;
  }
  return fmt::format("{} weights, {}", weights, short_hash(text + model.config_json()));
}

/// Values from the middle of each weight that is read from a file. (Derived weights follow from these.)
std::string values_of(const config::Plan& plan, const Blueprint& blueprint) {
  const at::NoGradGuard no_grad;
  const bool has_adapters = plan.config.lora && !plan.config.lora->path.empty();
  std::string bytes;
  for (const nn::ParameterPtr& p : blueprint.model->all_parameters()) {
    const bool is_adapter = adapters::is_adapter(p->name);
    if (is_adapter && !has_adapters) continue;
    const int64_t count = std::min(kValues, p->numel()), begin = (p->numel() - count) / 2;
    const at::Tensor values = at::empty({count}, at::kFloat);
    (is_adapter ? blueprint.source() : *blueprint.sources.front()).read(*p, begin, begin + count, values);
    append(bytes, values.const_data_ptr<float>(), static_cast<size_t>(count));
  }
  return short_hash(bytes);
}

std::string samples_of(const data::Samples& samples) {
  std::string bytes;
  const int64_t seen = std::min(kSamples, samples.size());
  for (int64_t i = 0; i < seen; ++i) {
    data::Sample sample;
    samples.read(i * samples.size() / seen, sample);
    append(bytes, sample.source.data(), sample.source.size());
    append(bytes, sample.labels.data(), sample.labels.size());
    append(bytes, sample.pixels.data(), sample.pixels.size());
  }
  return fmt::format("{} samples, {}", samples.size(), short_hash(bytes));
}

}  // namespace

std::vector<std::pair<std::string, std::string>> marks_of(const config::Plan& plan, const Setup& setup) {
  const data::Datasets& datasets = setup.inputs.datasets;
  return {{"the model's shapes", shapes_of(*setup.blueprint.model)},
          {"its weights", values_of(plan, setup.blueprint)},
          {"data.train", samples_of(*datasets.train)},
          {"data.validation", samples_of(*datasets.validation)}};
}

void check_same_inputs(const config::Plan& plan, const Setup& setup, dist::Comm& comm) {
  const auto marks = marks_of(plan, setup);
  std::string mine;
  for (const auto& [name, mark] : marks) mine += mark + "\n";
  const std::vector<std::string> all = comm.gather_text(mine);
  const auto other = std::find_if(all.begin(), all.end(), [&](const std::string& text) { return text != all.front(); });
  if (other == all.end()) return;
  std::istringstream here(all.front()), there(*other);
  std::string differences, first, second;
  for (const auto& [name, mark] : marks) {
    if (!std::getline(here, first) || !std::getline(there, second) || first == second) continue;
    differences += fmt::format("\n  {}: {} on rank 0, {} on rank {}", name, first, second, other - all.begin());
  }
  throw InputError(
      "the machines don't train the same model on the same data:{}\n  Each machine reads its own model.path and data: "
      "put the same files on all of them.",
      differences);
}

}  // namespace trainer::train
