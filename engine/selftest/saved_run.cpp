#include "engine/selftest/saved_run.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <sstream>

#include <ATen/TensorOperators.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "engine/base/bounded_json.h"
#include "engine/base/files.h"
#include "engine/checkpoint/whole_tensors.h"

namespace trainer::selftest {
namespace fs = std::filesystem;
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  return a.sizes() == b.sizes() && a.scalar_type() == b.scalar_type() &&
         std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0;
}

std::string tensor_difference(const SavedRun& found, const SavedRun& expected) {
  for (const auto& [name, tensor] : expected.tensors) {
    const auto its = found.tensors.find(name);
    if (its == found.tensors.end()) return fmt::format("{} is missing", name);
    if (!same_bits(its->second, tensor)) return fmt::format("{} has different bits", name);
  }
  return found.tensors.size() == expected.tensors.size() ? "" : "there are more tensors than expected";
}

std::string update_difference(const SavedRun& found, const SavedRun& expected, double tolerance) {
  for (const auto& [step, update] : expected.updates) {
    const auto its = found.updates.find(step);
    if (its == found.updates.end()) return fmt::format("update {} is missing", step);
    if (its->second.order_digest != update.order_digest) return fmt::format("update {} has different samples", step);
    if (its->second.learning_rate != update.learning_rate)
      return fmt::format("update {} has the learning rate {}, not {}", step, its->second.learning_rate,
                         update.learning_rate);
  }
  if (found.updates.size() != expected.updates.size()) return "there are more updates than expected";
  const double apart = loss_difference(found, expected);
  return apart <= tolerance ? "" : fmt::format("losses differ by {:.1e}", apart);
}

}  // namespace

SavedRun read_saved_run(const fs::path& folder, int64_t step) {
  SavedRun run;
  const fs::path checkpoint = folder / fmt::format("checkpoint-{}", step);
  checkpoint::WholeTensors tensors(checkpoint);
  for (const checkpoint::SavedTensor& tensor : tensors.manifest().tensors)
    run.tensors[tensor.kind + "/" + tensor.name] = tensors.read(tensor).clone();
  const fs::path manifest = checkpoint / checkpoint::kManifestFile;
  run.progress = checkpoint::unsealed(read_file(manifest), manifest).at("progress").dump();
  std::istringstream lines(read_file(folder / "metrics.jsonl"));
  for (std::string line; std::getline(lines, line);) {
    const nlohmann::json record = bounded_json(line);
    if (record.at("step") > step && record.contains("order_digest"))
      run.updates[record.at("step").get<int64_t>()] = {record.at("order_digest"), record.at("learning_rate"),
                                                       record.at("loss")};
  }
  return run;
}

double loss_difference(const SavedRun& found, const SavedRun& expected) {
  double largest = 0;
  for (const auto& [step, update] : expected.updates) {
    const double apart = std::abs(found.updates.at(step).loss / update.loss - 1);
    largest = std::max(largest, std::isfinite(apart) ? apart : kInfinity);
  }
  return largest;
}

std::string difference(const SavedRun& found, const SavedRun& expected, double tolerance) {
  if (const std::string problem = tensor_difference(found, expected); !problem.empty()) return problem;
  if (found.progress != expected.progress)
    return fmt::format("progress is {}, not {}", found.progress, expected.progress);
  return update_difference(found, expected, tolerance);
}

double distance(const SavedRun& found, const SavedRun& expected) {
  double largest = 0;
  for (const auto& [name, tensor] : expected.tensors) {
    const auto its = found.tensors.find(name);
    if (its == found.tensors.end() || its->second.sizes() != tensor.sizes()) return kInfinity;
    const double size = tensor.to(at::kDouble).norm().item<double>(),
                 apart = (its->second.to(at::kDouble) - tensor.to(at::kDouble)).norm().item<double>();
    if (apart > 0) largest = std::max(largest, size > 0 ? apart / size : kInfinity);
  }
  return std::isfinite(largest) ? largest : kInfinity;
}

}  // namespace trainer::selftest
