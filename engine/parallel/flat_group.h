#pragma once

#include <map>
#include <memory>
#include <set>
#include <vector>

#include "engine/dist/mesh.h"
#include "engine/parallel/logical_tensor.h"
#include "engine/parallel/parallel_model.h"
#include "engine/parallel/weight_source.h"
#include "models/nn/parameter.h"

namespace trainer::parallel {

/// The stages of a pipeline that hold a parameter, where several do (a tied weight).
using StageHolders = std::map<nn::ParameterPtr, std::set<int>>;

/// What may share one flat buffer.
struct GroupKind {
  at::ScalarType kept, seen;  // dtype of the shard, and of what layers compute with
  bool trainable;
  // Cut into parts of different sizes: on the ranks that share layers, all other shards are laid out alike.
  bool uneven;
  std::set<int> holders;  // stages, where there are several: on all of them these shards are laid out alike
  bool operator==(const GroupKind&) const = default;
};

/// Parameters of one unit that are kept, gathered and reduced together.
///   shard    [n]      this rank's piece, in the kept dtype (fp32 when trained); the parameters lie end to end, the
///   last
///                     shard is padded
///   full     [n * R]  the unsharded buffer in the seen dtype; its memory exists only between gather and free()
///   shared   [n * R]  where ranks share memory: all their shards end to end. Then nothing needs to be sent: `full` is
///                     `shared` itself, or a cast of it where the layers compute in another dtype
///   views             each parameter's leaf: what layers compute with, over `full`
///   grads    [n * R]  gradients of the views; exist only during the unit's backward
///   shard_grad [n]    this rank's piece of the summed gradients, fp32
class FlatGroup {
 public:
  /// `reduce`: the dtype in which ranks add up gradients.
  FlatGroup(GroupKind kind, std::vector<nn::ParameterPtr> parameters, const dist::Mesh& mesh, at::ScalarType reduce);

  void load(const WeightSource& source);

  /// Starts gathering into `full`; wait_gathered() ends it. Both do nothing when it is there already. Collective.
  void start_gather();
  void wait_gathered();
  void free();
  bool gathered() const { return state_ == State::kGathered; }

  /// Gives every view a zero gradient over `grads`.
  void begin_grads();
  /// Collective. Adds this rank's piece of the sum over the ranks that share the shards to shard_grad, and frees
  /// `grads`. Once a backward.
  void reduce_grads();
  /// Collective. Adds up shard_grad over copies of the model, and shares of gradients over the ranks that share layers.
  /// Once an update: both go for the sum of all its backwards.
  void sum_copies();

  bool trainable() const { return kind_.trainable; }
  std::vector<at::Tensor>& views() { return views_; }
  void append_logical_tensors(std::vector<LogicalTensor>& to) const;
  /// Whether other ranks read this rank's shard in place, so that updates need barriers around them.
  bool shares_memory() const { return shared_.defined(); }

 private:
  enum class State { kSharded, kGathering, kGathered };
  struct Piece {
    int64_t begin, end, at;  // elements [begin, end) of the parameter lie at `at` in the shard
  };
  Piece piece_of(size_t parameter) const;
  /// The parts of shard_grad that are shares of gradients.
  std::vector<at::Tensor> shares() const;
  bool full_is_shared() const { return shared_.defined() && kind_.kept == kind_.seen; }

  GroupKind kind_;
  at::ScalarType reduce_;
  std::vector<nn::ParameterPtr> parameters_;
  std::vector<int64_t> offsets_;  // of each parameter in `full`
  const dist::Mesh& mesh_;
  dist::Comm& comm_;  // of the ranks that share the shards
  State state_ = State::kGathered;
  at::Tensor shared_, shard_, full_, grads_, shard_grad_;
  at::Tensor sent_;  // the shard in the seen dtype, while a gather runs
  std::unique_ptr<dist::Pending> pending_;
  std::vector<at::Tensor> views_;
};

}  // namespace trainer::parallel
