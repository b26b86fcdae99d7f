// Records what a dry run would make a device do, in order: every operator of libtorch, every collective and every wait
// (Note [Dry run] in engine/train/memory_plan.h). A model of time, such as engine/train/roofline, is then applied to the
// list.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include <c10/core/ScalarType.h>

namespace trainer::dist {

/// An operator that computes, copies or fills. Views and allocations aren't recorded.
struct DryOperator {
  std::string name;                   // "aten::mm"
  int64_t flops = 0;                  // of matrix products: two for each multiplication and addition; otherwise 0
  int64_t hidden_flops = 0;           // of these, those that a kernel skips because a mask hides their results
  int64_t bytes = 0;                  // read and written in device memory, each element once
  int64_t launches = 1;               // kernels
  at::ScalarType dtype = at::kFloat;  // in which products are computed
  int64_t attention = 0;              // which call of attention it is a part of, counted from 1; 0: none
};

struct DryCollective {
  enum class Kind { kAllGather, kAllReduce, kReduceScatter, kSend, kReceive };
  Kind kind = Kind::kAllGather;
  int64_t bytes = 0;       // of the whole tensor: the result of a gather, the input of a reduction
  std::vector<int> ranks;  // that take part, as numbered in the run
  int64_t stream = 0;      // collectives of one communicator run one after the other
};

/// Later operators wait for a collective, given by its index among the collectives of the trace.
struct DryWait {
  size_t collective = 0;
};

/// The host waits until the device is done, to read a value.
struct DryHostRead {};

using DryTrace = std::vector<std::variant<DryOperator, DryCollective, DryWait, DryHostRead>>;

/// During its lifetime, this thread's dry runs are recorded. One at a time.
class DryRecorder {
 public:
  DryRecorder();
  ~DryRecorder();
  DryRecorder(const DryRecorder&) = delete;
  DryRecorder& operator=(const DryRecorder&) = delete;

  /// Everything since the last call. Waits count the collectives from there on.
  DryTrace take();

 private:
  uint64_t callback_;
};

/// An operator or a collective that the dry run doesn't run itself. Nothing happens without a recorder.
void record(DryOperator op);
size_t record(DryCollective collective);
void record(DryWait wait);
void record(DryHostRead read);

/// Operators recorded so far.
size_t recorded_operators();

/// For a new communicator.
int64_t next_dry_stream();

}  // namespace trainer::dist
