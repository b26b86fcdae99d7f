#pragma once

#include <map>
#include <memory>
#include <set>
#include <vector>

#include "engine/dist/mesh.h"
#include "engine/parallel/host_offload.h"
#include "engine/parallel/logical_tensor.h"
#include "engine/parallel/precision.h"
#include "engine/parallel/shared_gradients.h"
#include "engine/parallel/weight_source.h"
#include "models/nn/parameter.h"

namespace trainer::parallel {

/// The pipeline stages that hold a parameter, if several do (a tied weight).
using StageHolders = std::map<nn::ParameterPtr, std::set<int>>;

/// Parameters of equal kind may share one flat buffer.
struct GroupKind {
  nn::Storage storage, gathered;  // of the shard, and of the unsharded buffer that layers compute with
  bool trainable;
  // Split unevenly over the tensor-parallel ranks; all other shards have the same layout on those ranks.
  bool uneven;
  std::set<int> holders;  // stages, if several: these shards have the same layout on all of them
  bool operator==(const GroupKind&) const = default;
};

/// Parameters of one unit that are stored, gathered and reduced together.
///   shard [n]      this rank's shard, as stored (in fp32 when trained); parameters are concatenated, the last shard is
///                  padded. A packed group holds bytes: n counts the values, and parameters and shards begin at blocks
///   full  [n * R]  the unsharded buffer: trained weights in the compute dtype, frozen ones as stored; its memory is
///                  there only between gather and free()
///   shared   [n * R]  all shards in sequence, if ranks share memory. Nothing needs to be sent then: `full` is `shared`
///                  itself, or a cast of it if the compute dtype differs
///   views          each parameter's leaf, a view of `full` that layers compute with
///   grads [n * R]  gradients of the views; exist only during the unit's backward. If ranks share memory, a row of what
///                  all ranks write
///   shard_grad [n] this rank's shard of the summed gradients, fp32
/// With offload, shard and shard_grad are in the host's memory (Note [Offload]).
class FlatGroup {
 public:
  /// `reduce`: the dtype of gradients in reductions. `offload`: null without.
  FlatGroup(GroupKind kind, std::vector<nn::ParameterPtr> parameters, const dist::Mesh& mesh, at::ScalarType reduce,
            std::shared_ptr<HostOffload> offload);

  void load(const WeightSource& source);

  /// Bytes of `grads` if it may be in memory that the ranks share, else 0.
  int64_t sharable_gradient_bytes() const;
  /// From now on, it is there if there is space.
  void share_gradients(std::shared_ptr<SharedGradients> memory) { shared_gradients_ = std::move(memory); }

  /// Starts gathering into `full`; wait_gathered() completes it. Both do nothing if already gathered. Collective.
  void start_gather();
  void wait_gathered();
  void free();
  bool gathered() const { return state_ == State::kGathered; }

  /// Gives every view a gradient without values, a view of `grads`.
  void begin_grads();
  /// Collective, once per backward. Frees `grads`, and adds this rank's shard of their sum over the shard group to
  /// shard_grad, or writes it there if it is the first one after drop_gradients(): at once, or in finish_reduction() if
  /// collectives run beside the operators.
  void start_reduction();
  void finish_reduction();
  /// Collective. Sums shard_grad over the replicate group, and then partial gradients over the tensor-parallel ranks.
  /// Once per update: both work on the sum of all its backwards. With offload, the host waits for the copies of the
  /// first one before it does the second.
  void reduce_replicas();
  void reduce_partial();
  void drop_gradients() { adds_ = false; }

  bool trainable() const { return kind_.trainable; }
  std::vector<at::Tensor>& views() { return views_; }
  void append_logical_tensors(std::vector<LogicalTensor>& to) const;
  /// Whether other ranks read this rank's shard in place, which requires barriers around updates.
  bool shares_memory() const { return shared_.defined(); }

 private:
  enum class State { kSharded, kGathering, kGathered };
  struct Piece {
    int64_t begin, end, at;  // values [begin, end) of the parameter are at offset `at` in the shard
  };
  Piece piece_of(size_t parameter) const;
  at::Tensor in_shard(const Piece& piece) const;
  /// The ranges of shard_grad that are partial gradients.
  std::vector<at::Tensor> shares() const;
  bool full_is_shared() const { return shared_.defined() && kind_.storage == kind_.gathered; }

  GroupKind kind_;
  at::ScalarType reduce_;
  std::vector<nn::ParameterPtr> parameters_;
  std::vector<int64_t> offsets_;  // of each parameter in `full`, in values
  int64_t share_ = 0;             // values of a shard
  const dist::Mesh& mesh_;
  dist::Comm& comm_;  // the shard group
  State state_ = State::kGathered;
  at::Tensor shared_, shard_, full_, grads_, shard_grad_;
  std::shared_ptr<SharedGradients> shared_gradients_;  // null: grads_ is this rank's own
  at::Tensor rows_;                                    // [R, n * R], one of which grads_ is; undefined if it isn't
  std::shared_ptr<HostOffload> offload_;               // null: values stay on the device
  bool adds_ = false;                                  // whether shard_grad has gradients, of an earlier micro-batch
  HostOffload::Gather gather_;                         // while one runs: with the shard in the compute dtype
  at::Tensor reduced_;  // the gradients [n * R] in the reduce dtype, while a reduction runs
  dist::Comm::Scattered scattered_;
  std::vector<at::Tensor> views_;
};

}  // namespace trainer::parallel
