#include "engine/weights/weight_sources.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <set>

#include <fmt/ranges.h>

#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <torch/csrc/autograd/grad_mode.h>

#include "engine/base/errors.h"
#include "engine/base/first_problems.h"
#include "engine/base/mapped_file.h"
#include "engine/tensorfile/dtype.h"
#include "models/nn/init.h"

namespace trainer::checkpoint {
namespace {

std::string shape_problem(const std::string& name, const std::vector<int64_t>& here,
                          const std::vector<int64_t>& there) {
  return fmt::format("{} is [{}] in the file; the model's is [{}]", name, fmt::join(there, ", "),
                     fmt::join(here, ", "));
}

at::ScalarType type_of(const tensorfile::SafetensorsFile& file, const std::string& name) {
  return file.info(name).dtype->type;
}

/// To a device, by parts in pinned memory: the next one is read while one is sent. What has another dtype there is
/// converted there.
void send_from(const tensorfile::SafetensorsFile& file, const std::string& name, int64_t begin, const at::Tensor& out) {
  constexpr int64_t kElementsOfPart = int64_t{1} << 25;
  const auto dtype = type_of(file, name);
  for (int64_t at = 0; at < out.numel(); at += kElementsOfPart) {
    const at::Tensor to = out.narrow(0, at, std::min(kElementsOfPart, out.numel() - at));
    const at::Tensor part = at::empty({to.numel()}, at::TensorOptions().dtype(dtype).pinned_memory(true));
    file.read_into(name, begin + at, part);
    const at::Tensor there = to.scalar_type() == dtype ? to : at::empty({to.numel()}, to.options().dtype(dtype));
    there.copy_(part, /*non_blocking=*/true);
    if (!there.is_same(to)) to.copy_(there);
  }
}

/// `out` is flat.
void copy_from(const tensorfile::SafetensorsFile& file, const std::string& name, int64_t begin, const at::Tensor& out) {
  if (!out.is_cpu()) return send_from(file, name, begin, out);
  if (out.scalar_type() == type_of(file, name) && out.is_contiguous()) return file.read_into(name, begin, out);
  out.copy_(file.read(name, begin, begin + out.numel()));
}

}  // namespace

void SeedSource::read(const nn::Parameter& parameter, int64_t begin, int64_t end, const at::Tensor& out) const {
  nn::Parameter drawn = parameter;
  if (!drawn.copy_of.empty()) drawn.name = drawn.copy_of;
  if (out.is_cpu() && out.scalar_type() == at::kFloat && out.is_contiguous()) {
    nn::draw(drawn, seed_, begin, end, out.data_ptr<float>());
    return;
  }
  const at::Tensor values = at::empty({end - begin}, at::kFloat);
  nn::draw(drawn, seed_, begin, end, values.data_ptr<float>());
  out.copy_(values);
}

void AbsentSource::read(const nn::Parameter& parameter, int64_t, int64_t, const at::Tensor&) const {
  throw InternalError("{} cannot be read: the weights are missing", parameter.name);
}

std::string FolderSource::find(const nn::Parameter& parameter) const {
  std::vector<std::string> names{parameter.name};
  names.insert(names.end(), parameter.aliases.begin(), parameter.aliases.end());
  if (!parameter.copy_of.empty()) names.push_back(parameter.copy_of);
  for (const std::string& name : names)
    if (const std::string found = name_in_folder(name); !found.empty()) return found;
  return "";
}

std::string FolderSource::name_in_folder(const std::string& name) const {
  std::vector<std::string> names{name};
  if (!base_prefix_.empty() && name.starts_with(base_prefix_)) names.push_back(name.substr(base_prefix_.size()));
  for (const auto& [ours, theirs] : {std::pair{".weight", ".gamma"}, std::pair{".bias", ".beta"}})
    if (const auto norm = std::string("LayerNorm") + ours; name.ends_with(norm))
      for (size_t i = 0, count = names.size(); i < count; ++i)
        names.push_back(names[i].substr(0, names[i].size() - std::strlen(ours)) + theirs);
  for (const std::string& candidate : names)
    if (folder_.find(candidate) != nullptr) return candidate;
  return "";
}

nn::Storage FolderSource::storage(const nn::Parameter& parameter) const {
  const std::string name = find(parameter);
  return name.empty() ? at::kFloat : type_of(*folder_.find(name), name);
}

void FolderSource::read(const nn::Parameter& parameter, int64_t begin, int64_t end, const at::Tensor& out) const {
  const std::string name = find(parameter);
  if (name.empty()) return seed_source_.read(parameter, begin, end, out);  // check() allowed it
  copy_from(*folder_.find(name), name, begin, out);
}

parallel::WeightSource::InPlace FolderSource::in_place(const nn::Parameter& p) const {
  const std::string name = find(p);
  if (name.empty() || p.storage.packed) return {};
  const tensorfile::SafetensorsFile& file = *folder_.find(name);
  const auto runs = nn::runs_of(p.part, p.whole_shape(), 0, p.numel());
  if (type_of(file, name) != p.storage.dtype || runs.size() != 1 || !file.file()->is_local()) return {};
  const at::Tensor value = file.tensor(name).view(-1).narrow(0, runs.front().whole, p.numel()).view(p.shape);
  if (!MappedFile::read_now({static_cast<const char*>(value.const_data_ptr()), value.nbytes()})) {
    file.file()->check_unchanged();
    throw MachineError("cannot read {}: does its disk fail? See `dmesg`", file.path().string());
  }
  return {value, file.file()};
}

std::vector<std::string> FolderSource::check(models::Model& model) const {
  std::vector<std::string> problems, from_scratch;
  for (const nn::ParameterPtr& p : model.all_parameters()) {
    if (adapters::is_adapter(p->name)) continue;
    const std::string name = find(*p);
    if (name.empty()) {
      if (model.may_be_initialized(p->name))
        from_scratch.push_back(p->name);
      else
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
                     first_problems(problems));
  return from_scratch;
}

bool FolderSource::head_is_separate(models::Model& model) const {
  const std::string head = model.output_head() + ".weight", own = name_in_folder(head);
  for (const nn::ParameterPtr& p : model.all_parameters()) {
    if (std::find(p->aliases.begin(), p->aliases.end(), head) == p->aliases.end()) continue;
    const std::string shared = name_in_folder(p->name);
    if (own.empty() || shared.empty() || own == shared) continue;
    return !at::equal(folder_.find(own)->tensor(own), folder_.find(shared)->tensor(shared));
  }
  return false;
}

namespace {

std::string adapter_weights(const std::filesystem::path& folder) {
  const auto weights = folder / "adapter_model.safetensors", pickle = folder / "adapter_model.bin";
  if (!std::filesystem::exists(weights) && std::filesystem::exists(pickle))
    throw InputError(
        "{} is pickled. Loading a pickle can run any program, so it is not read.\n  Convert it once, in Python: load "
        "the adapter with PEFT's PeftModel.from_pretrained and save it with save_pretrained",
        pickle.string());
  return weights.string();
}

}  // namespace

AdapterSource::AdapterSource(const std::string& folder, const parallel::WeightSource& base,
                             std::map<std::string, std::vector<std::string>> names)
    : file_(adapter_weights(folder)), base_(base), names_(std::move(names)) {}

const std::string& AdapterSource::name_of(const nn::Parameter& parameter) const {
  const auto& names = names_.at(parameter.name);
  const auto there = [this](const std::string& name) { return file_.find(name) != nullptr; };
  const auto found = std::find_if(names.begin(), names.end(), there);
  return found == names.end() ? names.front() : *found;
}

bool AdapterSource::has(const nn::Parameter& parameter) const {
  return file_.find(name_of(parameter)) != nullptr;
}

nn::Storage AdapterSource::storage(const nn::Parameter& parameter) const {
  return has(parameter) ? nn::Storage(type_of(file_, name_of(parameter))) : base_.storage(parameter);
}

void AdapterSource::read(const nn::Parameter& parameter, int64_t begin, int64_t end, const at::Tensor& out) const {
  if (!has(parameter)) return base_.read(parameter, begin, end, out);
  copy_from(file_, name_of(parameter), begin, out);
}

void AdapterSource::check(models::Model& model) const {
  std::vector<std::string> problems;
  std::set<std::string> taken;
  for (const nn::ParameterPtr& p : model.all_parameters()) {
    const std::string& name = name_of(*p);
    if (has(*p)) {
      taken.insert(names_.at(p->name).begin(), names_.at(p->name).end());
      if (file_.info(name).shape != p->shape) problems.push_back(shape_problem(name, p->shape, file_.info(name).shape));
    } else if (p->trainable) {
      problems.push_back(fmt::format("{} is missing", name));
    }
  }
  // PEFT's copy of what a module in modules_to_save was before training isn't used.
  const auto unused = [](const std::string& name) { return name.find(".original_module.") != std::string::npos; };
  for (const std::string& name : file_.names())
    if (taken.count(name) == 0 && !unused(name)) problems.push_back(fmt::format("{} has no place in the model", name));
  if (!problems.empty())
    throw InputError("{}: this adapter does not fit the model:{}", file_.path().string(), first_problems(problems));
}

const parallel::WeightSource& SeededAdapterSource::of(const nn::Parameter& parameter) const {
  return adapters::is_adapter(parameter.name) ? static_cast<const parallel::WeightSource&>(seeded_) : base_;
}

nn::Storage DerivedSource::storage(const nn::Parameter& parameter) const {
  return starts_.count(parameter.name) != 0 ? nn::Storage(at::kFloat) : base_.storage(parameter);
}

void DerivedSource::read(const nn::Parameter& parameter, int64_t begin, int64_t end, const at::Tensor& out) const {
  const auto start = starts_.find(parameter.name);
  if (start == starts_.end()) return base_.read(parameter, begin, end, out);
  const at::NoGradGuard no_grad;
  const auto whole = [this](const nn::Parameter& wanted) {
    const at::Tensor values = at::empty(wanted.whole_shape(), at::kFloat);
    read(wanted, 0, values.numel(), values.view(-1));
    // An adapter starts from the values that its layer computes with.
    const nn::Storage storage = wanted.storage.of_whole();
    if (!storage.packed) return values;
    return storage.decode(storage.encode(storage.transposed ? values.t() : values), at::kFloat);
  };
  out.copy_(start->second(whole).contiguous().view(-1).narrow(0, begin, end - begin));
}

}  // namespace trainer::checkpoint
