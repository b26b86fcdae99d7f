#pragma once

#include <map>
#include <memory>
#include <set>
#include <vector>

#include "engine/parallel/forward_pass.h"
#include "engine/parallel/logical_tensor.h"
#include "engine/parallel/precision.h"
#include "engine/parallel/weight_source.h"
#include "models/decoder_stack.h"
#include "models/model.h"

namespace trainer::parallel {

// Note [Weights in place]
// Frozen weights that a file of this machine holds as a rank needs them are used there, in the system's page cache: all
// ranks and programs of the machine share one copy, a start copies nothing, and a model may be larger than the free
// memory, since the system can drop pages and read them again. The products of training take as long as with a copy in
// pages of 2 MiB (Note [Huge pages]). Generation, which reads every weight for each token, takes up to 1.25 times as
// long, so a model that isn't trained is copied if there is memory for it. If another program writes to the file,
// weights change: the end of each forward or backward fails then, before its result is used.

/// This rank's parameters of a model, with values, and their gradients: of the whole model, or of its pipeline stages.
/// A Schedule reports what it runs, so that sharded weights are gathered in time and gradients are summed over ranks.
class Weights {
 public:
  virtual ~Weights() = default;

  /// Every parameter of the model, in its order; those of other stages have an empty shard. Made once: updates change
  /// values and gradients in place.
  const std::vector<LogicalTensor>& logical_tensors() const { return tensors_; }

  /// Called around an update or a part of it, or around forward passes without gradients. These and all calls between
  /// them are collectives over the shard group.
  virtual void begin() {}
  virtual void end() {}
  /// Starts a forward pass. Any number of them may wait for their backward.
  virtual ForwardPassPtr begin_forward() { return nullptr; }
  /// Called around the backward of `pass`.
  virtual void begin_backward(ForwardPassPtr pass) {}
  virtual void end_backward() {}
  /// May be called before the last backward of an update: gradients may be summed over ranks while that of `loss` runs.
  virtual void reduce_in_backward(const at::Tensor& loss) {}
  /// Collective, after the last backward of an update: completes the sums over ranks, and sums the gradients of tied
  /// weights over the stages that hold them.
  void reduce_gradients();
  /// The next update's gradients are to replace these. Until it has computed them, gradients have no defined values.
  virtual void drop_gradients() = 0;

 protected:
  struct Parameter {
    nn::ParameterPtr parameter;
    std::set<int> holders;  // the pipeline ranks that hold it
    dist::Comm* holding;    // the group of its holders, if this rank is one of several
  };

  /// Collective. Sets how each parameter is stored. `chunks`: the stages (split_into_chunks). `mesh` outlives this.
  /// Errors: ConfigError (Precision::storage).
  Weights(models::Model& model, const std::vector<models::Chunk>& chunks, const dist::Mesh& mesh,
          const Precision& precision, const WeightSource& source);

  /// Whether any of this rank's parameters is trained.
  bool trains() const;
  /// Makes the frozen parameter's value that of a file, in place; false if no file has it as it is needed.
  bool use_in_place(nn::Parameter& parameter, const WeightSource& source);
  /// Errors: InputError when a file whose weights are used in place was changed.
  void check_files() const;
  /// The tensor of a parameter that this rank holds whole, with its value and gradient.
  LogicalTensor whole_tensor(const Parameter& parameter) const;
  bool held(const Parameter& parameter) const { return parameter.holders.count(mesh_.pipeline().rank()) != 0; }
  /// Makes the list of logical tensors. `here`: the tensors of this rank's parameters, in any order, which are on
  /// `device`.
  void list(std::vector<LogicalTensor> here, at::Device device);
  /// Completes the sums of gradients over the ranks of this stage.
  virtual void reduce_in_stage() = 0;

  const dist::Mesh& mesh_;
  std::vector<Parameter> parameters_;  // of the whole model

 private:
  dist::Comm& group_of(const std::set<int>& stages);

  std::map<std::set<int>, std::unique_ptr<dist::Comm>> groups_;  // groups of stages that hold the same weight
  std::vector<LogicalTensor> tensors_;
  std::set<std::shared_ptr<const RegularFile>> files_;  // whose weights are used in place
};

}  // namespace trainer::parallel
