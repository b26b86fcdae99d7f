// The time of an update by operator.
#pragma once

#include <memory>
#include <string>
#include <vector>

namespace torch::autograd::profiler {
struct ProfilerResult;
}

namespace trainer::train {

/// What an operator is, for the share of time outside matrix products.
enum class Work { kProduct, kAttention, kOther };
const char* name_of(Work work);

/// Sums over the calls of one operator.
struct OperatorTime {
  std::string name;  // "aten::mm"; of a layer or a fused block, its class
  Work work = Work::kOther;
  double calls = 0, seconds = 0;  // without the operators that it calls
  double flops = 0;               // of products; 0: unknown
};

/// Records the operators of this thread, and of the backward passes that it starts, during its lifetime. At a time, one
/// in a process. Source: libtorch's profiler (Kineto).
class OperatorRecorder {
 public:
  /// `with_device`: also a device's kernels.
  explicit OperatorRecorder(bool with_device);
  ~OperatorRecorder();

  /// Ends the recording.
  void stop();
  /// After stop(): the operators, those that took the most time first. Phases of an update are not listed.
  std::vector<OperatorTime> operators() const;
  /// After stop(): writes a Chrome trace, a JSON file for Perfetto or chrome://tracing. Errors: MachineError.
  void write_trace(const std::string& file) const;

 private:
  std::unique_ptr<torch::autograd::profiler::ProfilerResult> result_;
  bool records_ = true;
};

}  // namespace trainer::train
