#include "engine/dist/dry_buckets.h"

#include <c10/core/ScalarType.h>
#include <torch/csrc/autograd/engine.h>

#include "engine/dist/after_gradient.h"
#include "engine/dist/dry_comm.h"

namespace trainer::dist {

struct DryBuckets::State {
  explicit State(Comm& over) : comm(over) {}

  struct Bucket {
    int64_t bytes = 0;
    size_t leaves = 0, left = 0;
  };

  /// A leaf of `bucket` has its gradient.
  void leaf_done(size_t bucket, const std::shared_ptr<State>& self) {
    if (!reducing) return;
    if (!queued) torch::autograd::Engine::get_default_engine().queue_callback([self] { self->finish(); });
    queued = true;
    --buckets[bucket].left;
    while (next < buckets.size() && buckets[next].left == 0) start(buckets[next++]);
  }
  /// Unused leaves have no gradient until the end.
  void finish() {
    while (next < buckets.size()) start(buckets[next++]);
    for (const auto& transfer : under_way) transfer->wait();
    under_way.clear();
    reducing = queued = false;
  }
  void start(const Bucket& bucket) { under_way.push_back(dry_all_reduce(comm, bucket.bytes)); }

  Comm& comm;
  std::vector<Bucket> buckets;
  std::vector<std::unique_ptr<Pending>> under_way;
  size_t next = 0;
  bool reducing = false, queued = false;
};

DryBuckets::DryBuckets(const std::vector<at::Tensor>& leaves, const std::vector<std::vector<size_t>>& buckets,
                       Comm& comm, at::ScalarType sent_as)
    : state_(std::make_shared<State>(comm)) {
  const auto size = static_cast<int64_t>(c10::elementSize(sent_as));
  for (size_t b = 0; b < buckets.size(); ++b) {
    State::Bucket bucket;
    for (const size_t leaf : buckets[b]) {
      bucket.bytes += leaves[leaf].numel() * size;
      ++bucket.leaves;
      after_gradient(leaves[leaf], [b, state = std::weak_ptr<State>(state_)] {
        if (const auto alive = state.lock()) alive->leaf_done(b, alive);
      });
    }
    state_->buckets.push_back(bucket);
  }
}

DryBuckets::~DryBuckets() = default;

void DryBuckets::reduce_next_backward() {
  state_->reducing = true;
  state_->next = 0;
  for (State::Bucket& bucket : state_->buckets) bucket.left = bucket.leaves;
}

}  // namespace trainer::dist
