#include "engine/dist/bucket_reducer.h"

#include <algorithm>

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/comm.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>

#include "engine/dist/backend_comm.h"
#include "engine/dist/watched_comm.h"

namespace trainer::dist {
namespace {

class SumHook : public c10d::CommHookInterface {
 public:
  SumHook(c10::intrusive_ptr<c10d::ProcessGroup> group, std::optional<CollectiveNotes> notes)
      : group_(std::move(group)), notes_(std::move(notes)) {}

  c10::intrusive_ptr<c10::ivalue::Future> runHook(c10d::GradBucket& bucket) override {
    std::vector<at::Tensor> tensors{bucket.getBufferRef()};
    const uint64_t number = notes_ ? notes_->begin(CollectiveKind::kSum, tensors[0], "gradients") : 0;
    auto future = group_->allreduce(tensors)->getFuture();
    if (!notes_) return future;
    if (bucket.isLast()) notes_->wait(number);  // all gradients are there: nothing is left but to wait
    future->addCallback([notes = *notes_, number](c10::ivalue::Future& done) {
      if (!done.hasError()) notes.end(number);
    });
    return future;
  }
  at::Tensor parseHookResult(const c10::IValue& result) override {
    return c10d::detail::parseCppCommHookResult(result);
  }

 private:
  c10::intrusive_ptr<c10d::ProcessGroup> group_;
  std::optional<CollectiveNotes> notes_;
};

/// Indices of `parameters` in buckets, the last parameters (whose gradients come first) in the first bucket.
std::vector<std::vector<size_t>> reverse_buckets(const std::vector<at::Tensor>& parameters, int64_t bytes) {
  auto [buckets, limits] = c10d::compute_bucket_assignment_by_size(parameters, {static_cast<size_t>(bytes)});
  std::reverse(buckets.begin(), buckets.end());
  return buckets;
}

}  // namespace

struct BucketReducer::State {
  std::unique_ptr<c10d::Reducer> reducer;
};

BucketReducer::BucketReducer(std::vector<at::Tensor> parameters, Comm& comm, double bucket_megabytes)
    : state_(std::make_unique<State>()) {
  const auto bytes = static_cast<int64_t>(bucket_megabytes * 1024 * 1024);
  auto group = c10::intrusive_ptr<c10d::ProcessGroup>::reclaim_copy(&process_group(comm));
  const size_t count = parameters.size();
  auto buckets = reverse_buckets(parameters, bytes);
  state_->reducer = std::make_unique<c10d::Reducer>(
      std::move(parameters), std::move(buckets), group, std::vector<bool>(count, false), bytes,
      /*find_unused_parameters=*/false, /*gradient_as_bucket_view=*/true, std::unordered_map<size_t, std::string>{},
      bytes,
      /*skip_all_reduce_unused_params=*/false, /*use_python_reducer=*/false, std::vector<int64_t>{});
  state_->reducer->register_comm_hook(std::make_unique<SumHook>(group, notes_of(comm)));
}

BucketReducer::~BucketReducer() = default;

void BucketReducer::reduce_next_backward() {
  state_->reducer->prepare_for_backward({});
}

}  // namespace trainer::dist
