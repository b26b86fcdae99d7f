#include "engine/checkpoint/weight_sources.h"

#include <algorithm>
#include <set>

#include <fmt/ranges.h>

#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>

#include "engine/adapters/inject.h"
#include "engine/base/errors.h"
#include "engine/tensorfile/dtype.h"
#include "models/nn/init.h"

namespace trainer::checkpoint {
namespace {

constexpr size_t kShown = 4;  // problems named in one message

/// The first problems, one a line, and how many more there are.
std::string listed(const std::vector<std::string>& problems) {
  std::string text;
  for (size_t i = 0; i < std::min(problems.size(), kShown); ++i) text += "\n  " + problems[i];
  if (problems.size() > kShown) text += fmt::format(" … and {} more", problems.size() - kShown);
  return text;
}

std::string shape_problem(const std::string& name, const std::vector<int64_t>& here,
                          const std::vector<int64_t>& there) {
  return fmt::format("{} is [{}] there; the model's is [{}]", name, fmt::join(there, ", "), fmt::join(here, ", "));
}

void copy_from(const tensorfile::SafetensorsFile& file, const std::string& name, int64_t begin, const at::Tensor& out) {
  out.copy_(file.read(name, begin, begin + out.numel()));
}

at::ScalarType type_of(const tensorfile::SafetensorsFile& file, const std::string& name) {
  return file.info(name).dtype->type;
}

}  // namespace

bool is_adapter(const std::string& name) {
  return name.find(".lora_") != std::string::npos;
}

void SeedSource::read(const nn::Parameter& parameter, int64_t begin, int64_t end, const at::Tensor& out) const {
  nn::Parameter drawn = parameter;
  if (!drawn.copy_of.empty()) drawn.name = drawn.copy_of;
  if (out.scalar_type() == at::kFloat && out.is_contiguous()) {
    nn::draw(drawn, seed_, begin, end, out.data_ptr<float>());
    return;
  }
  const at::Tensor values = at::empty({end - begin}, at::kFloat);
  nn::draw(drawn, seed_, begin, end, values.data_ptr<float>());
  out.copy_(values);
}

std::string FolderSource::find(const nn::Parameter& parameter) const {
  std::vector<std::string> names{parameter.name};
  names.insert(names.end(), parameter.aliases.begin(), parameter.aliases.end());
  if (!parameter.copy_of.empty()) names.push_back(parameter.copy_of);
  for (const std::string& name : names)
    if (folder_.find(name) != nullptr) return name;
  return "";
}

at::ScalarType FolderSource::dtype(const nn::Parameter& parameter) const {
  const std::string name = find(parameter);
  return name.empty() ? at::kFloat : type_of(*folder_.find(name), name);
}

void FolderSource::read(const nn::Parameter& parameter, int64_t begin, int64_t, const at::Tensor& out) const {
  const std::string name = find(parameter);
  require(!name.empty(), "weight {} was not checked", parameter.name);
  copy_from(*folder_.find(name), name, begin, out);
}

void FolderSource::check(models::Model& model) const {
  std::vector<std::string> problems;
  for (const nn::ParameterPtr& p : model.all_parameters()) {
    if (is_adapter(p->name)) continue;
    const std::string name = find(*p);
    if (name.empty()) {
      problems.push_back(fmt::format("{} is missing", p->name));
      continue;
    }
    const auto& info = folder_.find(name)->info(name);
    if (info.shape != p->shape) problems.push_back(shape_problem(name, p->shape, info.shape));
    if (!at::isFloatingType(info.dtype->type))
      problems.push_back(fmt::format("{} holds {}, not a float type", name, info.dtype->name));
  }
  if (!problems.empty())
    throw InputError("{}: its weights are not those of the model in its config.json:{}", folder_.path().string(),
                     listed(problems));
}

bool FolderSource::differ(const std::string& one, const std::string& other) const {
  const auto *a = folder_.find(one), *b = folder_.find(other);
  return a != nullptr && b != nullptr && !at::equal(a->tensor(one), b->tensor(other));
}

AdapterSource::AdapterSource(const std::string& folder, const parallel::WeightSource& base)
    : file_(folder + "/adapter_model.safetensors"), base_(base) {}

bool AdapterSource::has(const nn::Parameter& parameter) const {
  return file_.find(adapters::adapter_name(parameter.name)) != nullptr;
}

at::ScalarType AdapterSource::dtype(const nn::Parameter& parameter) const {
  return has(parameter) ? type_of(file_, adapters::adapter_name(parameter.name)) : base_.dtype(parameter);
}

void AdapterSource::read(const nn::Parameter& parameter, int64_t begin, int64_t end, const at::Tensor& out) const {
  if (!has(parameter)) return base_.read(parameter, begin, end, out);
  copy_from(file_, adapters::adapter_name(parameter.name), begin, out);
}

void AdapterSource::check(models::Model& model) const {
  std::vector<std::string> problems;
  std::set<std::string> taken;
  for (const nn::ParameterPtr& p : model.all_parameters()) {
    const std::string name = adapters::adapter_name(p->name);
    if (has(*p)) {
      taken.insert(name);
      if (file_.info(name).shape != p->shape) problems.push_back(shape_problem(name, p->shape, file_.info(name).shape));
    } else if (p->trainable) {
      problems.push_back(fmt::format("{} is missing", name));
    }
  }
  for (const std::string& name : file_.names())
    if (taken.count(name) == 0) problems.push_back(fmt::format("{} has no place in the model", name));
  if (!problems.empty())
    throw InputError("{}: this adapter does not fit the model:{}", file_.path().string(), listed(problems));
}

const parallel::WeightSource& SeededAdapterSource::of(const nn::Parameter& parameter) const {
  return is_adapter(parameter.name) ? static_cast<const parallel::WeightSource&>(seeded_) : base_;
}

}  // namespace trainer::checkpoint
