#include "engine/base/visible_gpus.h"

#include <algorithm>
#include <cstdlib>

#include <fmt/format.h>

#include "engine/base/human.h"

namespace trainer {
namespace {

std::vector<std::string> items_of(const std::string& variable) {
  std::vector<std::string> items;
  for (size_t at = 0;;) {
    const size_t end = std::min(variable.find(',', at), variable.size());
    items.push_back(variable.substr(at, end - at));
    if (end == variable.size()) return items;
    at = end + 1;
  }
}

/// As strtoul: blanks, a sign and digits, whatever follows; -1 if there are no digits.
int64_t leading_number(const std::string& item) {
  char* end = nullptr;
  const long long number = std::strtoll(item.c_str(), &end, 10);
  return end == item.c_str() || number < 0 ? -1 : number;
}

void add(const Gpu& gpu, std::vector<VisibleGpu>& found) {
  if (!gpu.mig) found.push_back({&gpu});
  for (const MigInstance& instance : gpu.instances) found.push_back({&gpu, &instance});
}

/// The GPU whose UUID begins with `name`; null if there is none, or more than one. A GPU without a known UUID, which
/// can't be compared, is taken if it is the only candidate left: the variable names a GPU of this container.
const Gpu* gpu_named(const GpuMachine& machine, const std::string& name, const std::vector<VisibleGpu>& taken) {
  const Gpu *match = nullptr, *nameless = nullptr;
  for (const Gpu& gpu : machine.gpus) {
    const bool is_taken = std::any_of(taken.begin(), taken.end(), [&](const VisibleGpu& t) { return t.gpu == &gpu; });
    if (gpu.uuid.empty() && !is_taken && nameless == nullptr) nameless = &gpu;
    if (gpu.uuid.empty() || !gpu.uuid.starts_with(name)) continue;
    if (match != nullptr) return nullptr;
    match = &gpu;
  }
  return match != nullptr ? match : nameless;
}

/// "MIG-3f…", or the older "MIG-GPU-8a56…/1/0".
VisibleGpu instance_named(const GpuMachine& machine, const std::string& name) {
  VisibleGpu match;
  for (const Gpu& gpu : machine.gpus)
    for (const MigInstance& instance : gpu.instances) {
      const std::string older =
          fmt::format("MIG-{}/{}/{}", gpu.uuid, instance.gpu_instance, instance.compute_instance);
      if (!instance.uuid.starts_with(name) && older != name) continue;
      if (match.gpu != nullptr) return {};
      match = {&gpu, &instance};
    }
  return match;
}

std::vector<VisibleGpu> numbered(const GpuMachine& machine, const std::vector<std::string>& items) {
  std::vector<int64_t> seen;
  for (const std::string& item : items) {
    const int64_t number = leading_number(item);
    if (number < 0) break;
    if (std::find(seen.begin(), seen.end(), number) != seen.end()) return {};
    seen.push_back(number);
  }
  std::vector<VisibleGpu> found;
  for (const int64_t number : seen) {
    if (number >= std::ssize(machine.gpus)) break;
    add(machine.gpus[static_cast<size_t>(number)], found);
  }
  return found;
}

std::vector<VisibleGpu> named(const GpuMachine& machine, const std::vector<std::string>& items, const char* prefix) {
  std::vector<VisibleGpu> found;
  std::vector<std::string> seen;
  for (const std::string& item : items) {
    if (std::find(seen.begin(), seen.end(), item) != seen.end()) return {};
    if (!item.starts_with(prefix)) break;
    seen.push_back(item);
  }
  for (const std::string& item : seen) {
    std::vector<VisibleGpu> next;
    if (item.starts_with("MIG-")) {
      if (const VisibleGpu instance = instance_named(machine, item); instance.gpu != nullptr) next.push_back(instance);
    } else if (const Gpu* const gpu = gpu_named(machine, item, found)) {
      add(*gpu, next);
    }
    if (next.empty()) break;
    if (std::find(found.begin(), found.end(), next.front()) != found.end()) return {};
    found.insert(found.end(), next.begin(), next.end());
  }
  return found;
}

}  // namespace

std::string VisibleGpu::id() const {
  if (instance != nullptr) return instance->uuid;
  return gpu->uuid.empty() ? std::to_string(gpu->number) : gpu->uuid;
}

std::string VisibleGpu::text() const {
  const std::string memory = total_bytes() > 0 ? ", " + human_bytes(total_bytes()) : "";
  const std::string part = instance != nullptr ? instance->uuid + " of " : "";
  return fmt::format("{}GPU {} ({}{})", part, gpu->number, gpu->name, memory);
}

std::vector<VisibleGpu> visible_gpus(const GpuMachine& machine, const std::optional<std::string>& variable) {
  if (variable) {
    const std::vector<std::string> items = items_of(*variable);
    for (const char* prefix : {"GPU-", "MIG-"})
      if (items.front().starts_with(prefix)) return named(machine, items, prefix);
    return numbered(machine, items);
  }
  std::vector<VisibleGpu> all;
  for (const Gpu& gpu : machine.gpus) add(gpu, all);
  return all;
}

std::optional<std::string> cuda_visible_devices() {
  const char* const value = std::getenv("CUDA_VISIBLE_DEVICES");
  return value != nullptr ? std::optional<std::string>(value) : std::nullopt;
}

bool has_instances(const std::vector<VisibleGpu>& gpus) {
  return std::any_of(gpus.begin(), gpus.end(), [](const VisibleGpu& gpu) { return gpu.instance != nullptr; });
}

}  // namespace trainer
