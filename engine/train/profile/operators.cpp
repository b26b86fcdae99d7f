#include "engine/train/profile/operators.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>

#include <kineto/ActivityType.h>
#include <torch/csrc/autograd/profiler_kineto.h>

#include "engine/base/errors.h"
#include "engine/train/profile/phase_clock.h"

namespace trainer::train {
namespace {

namespace kineto = torch::autograd::profiler;
using torch::profiler::impl::ActivityType;

std::set<ActivityType> activities(bool with_device) {
  std::set<ActivityType> all{ActivityType::CPU};
  if (with_device) all.insert(ActivityType::CUDA);
  return all;
}

bool contains_one_of(const std::string& name, std::initializer_list<const char*> parts) {
  return std::any_of(parts.begin(), parts.end(),
                     [&](const char* part) { return name.find(part) != std::string::npos; });
}

/// By the names of libtorch's operators, of ours, and of the kernels that they launch on GPUs.
Work work_of(const std::string& name) {
  if (contains_one_of(name, {"ttention", "flash_", "fmha", "sdpa"})) return Work::kAttention;
  if (contains_one_of(
          name, {"aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm", "gemm", "nvjet", "cutlass", "splitKreduce"}))
    return Work::kProduct;
  return Work::kOther;
}

/// Where the parameters of a kernel begin: at the parenthesis that follows its name and template arguments.
size_t parameters_of(const std::string& kernel) {
  int depth = 0;
  for (size_t i = 0; i < kernel.size(); ++i) {
    if (kernel[i] == '<') ++depth;
    if (kernel[i] == '>') --depth;
    if (kernel[i] == '(' && depth == 0) return i;
  }
  return kernel.size();
}

/// "visit_rows<2, Backward<__nv_bfloat16> >" for "void trainer::nn::cuda::visit_rows<2, ...>(..., long)".
std::string short_kernel_name(std::string name) {
  for (const std::string_view part :
       {std::string_view("void "), std::string_view("(anonymous namespace)::"), std::string_view("trainer::nn::cuda::"),
        std::string_view("at::native::"), std::string_view("pytorch_flash::"), std::string_view("cublasLt::")})
    for (size_t at = 0; (at = name.find(part)) != std::string::npos;) name.erase(at, part.size());
  return name.substr(0, parameters_of(name));
}

/// Without namespaces and what autograd puts around them: "PackedAttention" for
/// "torch::autograd::CppNode<trainer::nn::(anonymous namespace)::PackedAttention>".
std::string short_name(std::string name) {
  constexpr std::string_view kNode = "torch::autograd::CppNode<";
  if (const size_t node = name.find(kNode); node != std::string::npos && name.ends_with('>')) name.pop_back();
  for (const std::string_view space : {kNode, std::string_view("torch::autograd::"), std::string_view("trainer::nn::"),
                                       std::string_view("trainer::"), std::string_view("(anonymous namespace)::")})
    for (size_t at = 0; (at = name.find(space)) != std::string::npos;) name.erase(at, space.size());
  return name;
}

/// The FLOPs of the operators that launched kernels, by their number. They count for the first kernel of a product.
class LaunchedFlops {
 public:
  explicit LaunchedFlops(const std::vector<const kineto::KinetoEvent*>& operators) {
    for (const auto* const one : operators)
      if (one->flops() > 0) flops_[one->correlationId()] = static_cast<double>(one->flops());
  }
  double take(const kineto::KinetoEvent& kernel) {
    const auto found = flops_.find(kernel.linkedCorrelationId());
    return found == flops_.end() ? 0 : std::exchange(found->second, 0);
  }

 private:
  std::unordered_map<uint64_t, double> flops_;
};

bool is_phase(const std::string& name) {
  for (size_t i = 0; i < kPhases; ++i)
    if (name == name_of(static_cast<Phase>(i))) return true;
  return false;
}

/// An event and the time of the events in it.
struct Span {
  const kineto::KinetoEvent* event = nullptr;
  uint64_t end = 0, inner = 0;
};

/// Calls `see` with each event of the CPU and its nanoseconds without the events inside of it.
template <class See>
void for_each_own_time(std::vector<const kineto::KinetoEvent*> events, const See& see) {
  std::sort(events.begin(), events.end(), [](const auto* a, const auto* b) {
    if (a->startThreadId() != b->startThreadId()) return a->startThreadId() < b->startThreadId();
    return a->startNs() != b->startNs() ? a->startNs() < b->startNs() : a->endNs() > b->endNs();
  });
  std::vector<Span> open;
  const auto close = [&] {
    const Span last = open.back();
    open.pop_back();
    const uint64_t all = last.event->durationNs();
    if (!open.empty()) open.back().inner += all;
    see(*last.event, all - std::min(all, last.inner));
  };
  uint64_t thread = 0;
  for (const auto* const event : events) {
    while (!open.empty() && (event->startThreadId() != thread || event->startNs() >= open.back().end)) close();
    thread = event->startThreadId();
    open.push_back({event, event->endNs(), 0});
  }
  while (!open.empty()) close();
}

}  // namespace

const char* name_of(Work work) {
  constexpr std::array<const char*, 3> kNames{"product", "attention", "other"};
  return kNames.at(static_cast<size_t>(work));
}

OperatorRecorder::OperatorRecorder(bool with_device) {
  setenv("KINETO_LOG_LEVEL", "99", /*overwrite=*/0);  // it would write to standard error
  const torch::profiler::impl::ProfilerConfig config(torch::profiler::impl::ProfilerState::KINETO,
                                                     /*report_input_shapes=*/true, /*profile_memory=*/false,
                                                     /*with_stack=*/false, /*with_flops=*/true);
  kineto::prepareProfiler(config, activities(with_device));
  kineto::enableProfiler(config, activities(with_device));
}

OperatorRecorder::~OperatorRecorder() {
  if (records_) kineto::disableProfiler();
}

void OperatorRecorder::stop() {
  result_ = kineto::disableProfiler();
  records_ = false;
}

std::vector<OperatorTime> OperatorRecorder::operators() const {
  std::vector<const kineto::KinetoEvent*> host, device;
  constexpr auto kScopeOnDevice = static_cast<uint8_t>(libkineto::ActivityType::GPU_USER_ANNOTATION);
  for (const kineto::KinetoEvent& event : result_->events()) {
    if (event.deviceType() == c10::DeviceType::CPU)
      host.push_back(&event);
    else if (event.activityType() != kScopeOnDevice)  // such scopes span the kernels of a module
      device.push_back(&event);
  }
  std::map<std::string, OperatorTime> by_name;
  const auto add = [&](const kineto::KinetoEvent& event, const std::string& shown, uint64_t nanoseconds,
                       const auto& flops_of) {
    const std::string name = event.name();
    if (is_phase(name)) return;
    OperatorTime& sum = by_name[shown];
    sum.work = work_of(name);
    sum.calls += 1;
    sum.seconds += 1e-9 * static_cast<double>(nanoseconds);
    if (sum.work == Work::kProduct) sum.flops += flops_of(event);
  };
  if (device.empty()) {
    for_each_own_time(std::move(host), [&](const kineto::KinetoEvent& event, uint64_t nanoseconds) {
      add(event, short_name(event.name()), nanoseconds, [](const auto& e) { return static_cast<double>(e.flops()); });
    });
  } else {
    LaunchedFlops launched(host);
    for (const auto* const event : device)
      add(*event, short_kernel_name(event->name()), event->durationNs(),
          [&](const auto& e) { return launched.take(e); });
  }
  std::vector<OperatorTime> all;
  for (auto& [name, sum] : by_name) all.push_back(sum), all.back().name = name;
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.seconds > b.seconds; });
  return all;
}

void OperatorRecorder::write_trace(const std::string& file) const {
  result_->save(file);
  std::error_code error;
  if (!std::filesystem::exists(file, error)) throw MachineError("the trace can't be written to {}.", file);
}

}  // namespace trainer::train
