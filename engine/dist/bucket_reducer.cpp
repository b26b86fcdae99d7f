#include "engine/dist/bucket_reducer.h"

#include <c10/util/Exception.h>
#include <torch/csrc/autograd/grad_mode.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/comm.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>

#include "engine/dist/backend_comm.h"
#include "engine/dist/buckets.h"
#include "engine/dist/dry_buckets.h"
#include "engine/dist/forwarding_comm.h"
#include "engine/dist/stream_stall.h"
#include "engine/dist/watched_comm.h"

namespace trainer::dist {
namespace {

/// Sums a bucket, if requested in another dtype.
class SumHook : public c10d::CommHookInterface {
 public:
  SumHook(Comm& comm, c10::intrusive_ptr<c10d::ProcessGroup> group, at::ScalarType sent_as)
      : group_(std::move(group)),
        sent_as_(sent_as),
        notes_(notes_of(comm)),
        waits_(comm.runs_beside() ? comm.device() : at::Device(at::kCPU)),
        runs_in_wait_(beneath<BackendComm>(comm)->runs_in_wait()) {}

  c10::intrusive_ptr<c10::ivalue::Future> runHook(c10d::GradBucket& bucket) override {
    const at::Tensor buffer = bucket.getBufferRef();
    std::vector<at::Tensor> tensors{buffer.to(sent_as_)};
    ++unread_;
    const uint64_t number = notes_ ? notes_->begin(CollectiveKind::kSum, tensors[0], "gradients") : 0;
    if (notes_ && runs_in_wait_) notes_->wait(number);
    auto sent = group_->allreduce(tensors)->getFuture();
    if (notes_) {
      // All gradients have been computed: the rank only waits from here on.
      if (bucket.isLast() && !runs_in_wait_) notes_->wait(number, !waits_.is_cpu());
      if (bucket.isLast()) stall_.emplace(waits_);
      sent->addCallback([notes = *notes_, number](c10::ivalue::Future& done) {
        if (!done.hasError()) notes.end(number);
      });
    }
    return sent_as_ == buffer.scalar_type() ? sent : put_back(*sent, buffer, tensors[0]);
  }
  /// After the wait for a bucket; that for the last one is the last.
  at::Tensor parseHookResult(const c10::IValue& result) override {
    if (--unread_ == 0) stall_.reset();
    return c10d::detail::parseCppCommHookResult(result);
  }

 private:
  /// Copies the sum into `buffer` once `sent` has written it to `rounded`.
  static c10::intrusive_ptr<c10::ivalue::Future> put_back(c10::ivalue::Future& sent, const at::Tensor& buffer,
                                                          const at::Tensor& rounded) {
    return sent.then(
        [buffer, rounded](c10::ivalue::Future& done) {
          done.value();  // rethrows a failure
          const at::NoGradGuard no_grad;
          buffer.copy_(rounded);
          return c10::IValue(buffer);
        },
        c10::TensorType::get());
  }

  c10::intrusive_ptr<c10d::ProcessGroup> group_;
  at::ScalarType sent_as_;
  std::optional<CollectiveNotes> notes_;
  at::Device waits_;  // the device whose stream waits for the sums; the CPU if this process does
  bool runs_in_wait_;
  int64_t unread_ = 0;                // buckets
  std::optional<StreamStall> stall_;  // from the last bucket's sum on
};

/// Sums a bucket by PowerSGD, synchronously.
class PowerSgdHook : public c10d::CommHookInterface {
 public:
  explicit PowerSgdHook(std::unique_ptr<PowerSgd> sums) : sums_(std::move(sums)) {}

  c10::intrusive_ptr<c10::ivalue::Future> runHook(c10d::GradBucket& bucket) override {
    const at::NoGradGuard no_grad;
    sums_->sum(bucket.getIndex(), bucket.getBufferRef(), bucket.getGradients());
    auto done = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
    done->markCompleted(c10::IValue(std::vector<at::Tensor>{bucket.getBufferRef()}));
    return done;
  }
  at::Tensor parseHookResult(const c10::IValue& result) override {
    return c10d::detail::parseCppCommHookResult(result);
  }

 private:
  std::unique_ptr<PowerSgd> sums_;
};

std::unique_ptr<c10d::CommHookInterface> make_hook(Comm& comm, const c10::intrusive_ptr<c10d::ProcessGroup>& group,
                                                   const GradientExchange& exchange) {
  if (!exchange.power_sgd) return std::make_unique<SumHook>(comm, group, exchange.sent_as);
  return std::make_unique<PowerSgdHook>(std::make_unique<PowerSgd>(comm, *exchange.power_sgd, exchange.sent_as));
}

struct Silence : c10::WarningHandler {
  void process(const c10::Warning&) override {}
};

}  // namespace

struct BucketReducer::State {
  std::unique_ptr<c10d::Reducer> reducer;
  std::unique_ptr<DryBuckets> dry;  // instead, in a dry run
};

BucketReducer::BucketReducer(std::vector<at::Tensor> parameters, Comm& comm, const GradientExchange& exchange)
    : state_(std::make_unique<State>()) {
  const int64_t bytes = exchange.bucket_bytes();
  const size_t count = parameters.size();
  auto buckets = buckets_of(parameters, bytes);
  if (comm.device() == at::kMeta) {
    state_->dry = std::make_unique<DryBuckets>(parameters, buckets, comm, exchange.sent_as);
    return;
  }
  auto group = c10::intrusive_ptr<c10d::ProcessGroup>::reclaim_copy(&process_group(comm));
  state_->reducer = std::make_unique<c10d::Reducer>(
      std::move(parameters), std::move(buckets), group, std::vector<bool>(count, false), bytes,
      /*find_unused_parameters=*/true, /*gradient_as_bucket_view=*/true, std::unordered_map<size_t, std::string>{},
      bytes,
      /*skip_all_reduce_unused_params=*/false, /*use_python_reducer=*/false, std::vector<int64_t>{});
  state_->reducer->register_comm_hook(make_hook(comm, group, exchange));
}

BucketReducer::~BucketReducer() = default;

void BucketReducer::reduce_next_backward(const at::Tensor& loss) {
  if (state_->dry) return state_->dry->reduce_next_backward();
  Silence silence;  // it would warn users about find_unused_parameters
  const c10::WarningUtils::WarningHandlerGuard guard(&silence);
  state_->reducer->prepare_for_backward({loss});
}

}  // namespace trainer::dist
