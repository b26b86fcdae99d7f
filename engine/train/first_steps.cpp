#include "engine/train/first_steps.h"

#include <algorithm>
#include <sstream>

#include <ATen/ops/all.h>
#include <ATen/ops/count_nonzero.h>
#include <ATen/ops/isfinite.h>
#include <fmt/ranges.h>

#include "engine/base/errors.h"
#include "engine/base/listed.h"
#include "engine/batching/collate.h"

namespace trainer::train {
namespace {

using parallel::LogicalTensor;

// Note [Cheap checksums]
// An optimizer that updates a frozen tensor by mistake changes all of it. So only a few places of each tensor are read,
// and checking a large frozen model costs no time.
constexpr int64_t kWindows = 4, kWindowBytes = 1024;

uint64_t checksum(const at::Tensor& value) {
  if (value.is_meta() || value.numel() == 0) return 0;
  const at::Tensor bytes = value.view(at::kByte);
  const int64_t length = std::min(bytes.numel(), kWindowBytes);
  uint64_t hash = 1469598103934665603U;  // FNV-1a
  for (int64_t window = 0; window < kWindows; ++window) {
    const at::Tensor part = bytes.narrow(0, (bytes.numel() - length) * window / (kWindows - 1), length).cpu();
    for (int64_t i = 0; i < length; ++i) hash = (hash ^ part.const_data_ptr<uint8_t>()[i]) * 1099511628211U;
  }
  return hash;
}

/// At most three of the names.
std::string some_of(const std::vector<std::string>& names) {
  constexpr size_t kShown = 3;
  const std::vector<std::string> shown(names.begin(), names.begin() + std::min(kShown, names.size()));
  return fmt::format("{}{}", fmt::join(shown, ", "),
                     names.size() > kShown ? fmt::format(" and {} more", names.size() - kShown) : "");
}

/// Collective. The lines of all ranks, each once.
std::set<std::string> lines_of_all(dist::Comm& comm, const std::vector<std::string>& mine) {
  std::set<std::string> all;
  for (const std::string& text : comm.gather_text(fmt::format("{}", fmt::join(mine, "\n")))) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) all.insert(line);
  }
  return all;
}

}  // namespace

FirstSteps::FirstSteps(parallel::ParallelModel& model) : model_(model) {
  check_aliases();
  for (const LogicalTensor& tensor : model_.logical_tensors())
    if (!tensor.trainable) frozen_[tensor.name] = checksum(tensor.value);
}

void FirstSteps::check_aliases() const {
  std::map<std::string, nn::ParameterPtr> by_path;
  model_.model().visit([&](nn::Module& module) {
    for (const auto& [name, parameter] : module.parameters())
      by_path[module.path().empty() ? name : module.path() + "." + name] = parameter;
  });
  std::set<std::string> listed;
  for (const LogicalTensor& tensor : model_.logical_tensors()) {
    require(listed.insert(tensor.name).second, "{} is listed twice among the model's tensors", tensor.name);
    const auto own = by_path.find(tensor.name);
    for (const std::string& alias : tensor.aliases) {
      require(listed.count(alias) == 0, "{} is tied to {}, but also trained separately", alias, tensor.name);
      const auto other = by_path.find(alias);
      require(own != by_path.end() && other != by_path.end() && own->second == other->second &&
                  own->second->value.is_same(other->second->value),
              "{} and {} are tied, but are two weights", tensor.name, alias);
    }
  }
}

void FirstSteps::check_batch(const UpdateBatch& batch) const {
  if (batch.target_tokens == 0)
    throw InputError(
        "all labels of the first update are masked (samples {} to {} in sample order): there is nothing to learn "
        "from.\n  Check data.learn, data.target and data.max_length.",
        batch.positions.begin, batch.positions.end - 1);
  int64_t samples = 0, labels = 0;
  for (const models::Batch& micro : batch.micro_batches) {
    samples += batching::sample_count(*micro.target);
    labels += batching::loss_terms(micro);
  }
  dist::Comm& data = model_.mesh().data();
  const auto all_samples = static_cast<int64_t>(data.sum(static_cast<double>(samples)));
  const auto all_labels = static_cast<int64_t>(data.sum(static_cast<double>(labels)));
  const int64_t wanted = batch.positions.end - batch.positions.begin;
  require(all_samples == wanted && all_labels == batch.target_tokens,
          "an update should have {} samples with {} labels, but its ranks have {} with {}", wanted, batch.target_tokens,
          all_samples, all_labels);
}

void FirstSteps::see_gradients() {
  for (const LogicalTensor& tensor : model_.logical_tensors())
    if (tensor.grad.defined() && reached_.count(tensor.name) == 0 && at::count_nonzero(tensor.grad).item<int64_t>() > 0)
      reached_.insert(tensor.name);
}

std::string FirstSteps::see_update(double learning_rate) {
  std::vector<std::string> changed;
  for (const LogicalTensor& tensor : model_.logical_tensors())
    if (!tensor.trainable && frozen_.at(tensor.name) != checksum(tensor.value)) changed.push_back(tensor.name);
  require(changed.empty(), "frozen tensors changed in an update: {}", some_of(changed));
  if (!changed_) {
    changed_ = learning_rate > 0;
    return "";
  }
  done_ = true;
  return without_gradient();
}

std::string FirstSteps::without_gradient() const {
  const std::set<std::string> reached = lines_of_all(model_.comm(), {reached_.begin(), reached_.end()});
  std::vector<std::string> mine;
  for (const LogicalTensor& tensor : model_.logical_tensors())
    if (tensor.trainable && reached.count(tensor.name) == 0) mine.push_back(tensor.name);
  const std::set<std::string> all = lines_of_all(model_.comm(), mine);
  if (all.empty()) return "";
  if (reached.empty())
    throw InputError(
        "no gradient reached any of the {} trained tensors ({}) in the first updates: this run would train nothing.\n"
        "  The model's output for these samples does not depend on them: choose other tensors to train.",
        all.size(), some_of({all.begin(), all.end()}));
  return fmt::format(
      "{} got no gradient in the first updates: {}. The model's output for these samples does not "
      "depend on {}.",
      counted(all.size(), "trained tensor", "trained tensors"), some_of({all.begin(), all.end()}),
      all.size() == 1 ? "it" : "them");
}

std::string not_finite(parallel::ParallelModel& model) {
  std::vector<std::string> mine;
  for (const LogicalTensor& tensor : model.logical_tensors())
    if (tensor.grad.defined() && !at::isfinite(tensor.grad).all().item<bool>()) mine.push_back(tensor.name);
  const std::set<std::string> all = lines_of_all(model.comm(), mine);
  return some_of({all.begin(), all.end()});
}

}  // namespace trainer::train
