// Any bytes as the config.json of a model give a model whose own configuration builds the same model, or one of our
// errors. The first byte selects the task, and whether it is a folder's config.json or `model.config`.
#include "engine/base/errors.h"
#include "models/registry.h"
#include "tests/fuzz/fuzz.h"

namespace trainer::models {
namespace {

std::vector<std::pair<std::string, std::vector<int64_t>>> parameters_of(Model& model) {
  std::vector<std::pair<std::string, std::vector<int64_t>>> parameters;
  for (const auto& parameter : model.all_parameters()) parameters.emplace_back(parameter->name, parameter->shape);
  return parameters;
}

void fuzz(const std::string& text, Task task, bool strict) {
  try {
    const auto model = build_model({.config_json = text, .origin = "f", .strict = strict, .task = task});
    const auto again = build_model({.config_json = model->config_json(), .origin = "g", .task = task});
    check(parameters_of(*model) == parameters_of(*again), "its own configuration builds the same model");
  } catch (const InputError&) {
  } catch (const ConfigError&) {
  }
}

}  // namespace
}  // namespace trainer::models

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  using trainer::models::Task;
  static constexpr Task kTasks[] = {Task::kCausalLm, Task::kSeq2SeqLm, Task::kSequenceClassification,
                                    Task::kImageClassification};
  if (size < 1) return 0;
  trainer::models::fuzz(std::string(reinterpret_cast<const char*>(data) + 1, size - 1), kTasks[data[0] % 4],
                        (data[0] & 4) != 0);
  return 0;
}
