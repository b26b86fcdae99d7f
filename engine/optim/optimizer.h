// Optimizers over this rank's shards of the trained parameters.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/config/sections/training.h"
#include "engine/dist/comm.h"
#include "engine/parallel/logical_tensor.h"

namespace trainer::optim {

/// One tensor of optimizer state.
struct StateTensor {
  std::string kind;            // "exp_avg", "exp_avg_sq", "momentum", …
  std::string parameter;       // its Hugging Face name
  at::Tensor value;            // flat; owned by the optimizer, so loading copies into it
  std::vector<int64_t> shape;  // if its shape differs from the parameter's: whole on every rank.
                               // Empty: same shape and sharding as the parameter

  /// The state as a tensor of the whole model. `of`: its parameter.
  parallel::LogicalTensor logical(const parallel::LogicalTensor& of) const;
};

/// The trained tensors of a model, in model order.
using Trained = std::vector<parallel::LogicalTensor>;

/// Where their values are: the ranks' device, or the host with offload.
at::Device device_of(const Trained& trained);

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  /// Collective. Updates the trained values in place from their gradients, which it may overwrite.
  void step(const std::vector<parallel::LogicalTensor>& tensors, double learning_rate);

  /// All state tensors.
  const std::vector<StateTensor>& state() const { return state_; }
  /// Name in checkpoints ("adamw"): the states of different optimizers are not interchangeable.
  virtual const char* name() const = 0;
  int64_t steps() const { return steps_; }
  void set_steps(int64_t steps) { steps_ = steps; }

 protected:
  /// Tensors with the same update rule.
  struct Group {
    double weight_decay = 0;
    double rate = 1;                        // multiple of the run's learning rate
    std::vector<at::Tensor> values, grads;  // the parts that this rank updates
    std::vector<size_t> places;             // index of each tensor among the trained ones
  };
  explicit Optimizer(const config::TrainingConfig& options);

  /// Runs on every rank before the groups are updated, with all trained tensors: for work that needs other ranks or
  /// tensors.
  virtual void prepare(const Trained& trained) {}
  virtual void update(Group& group, double learning_rate) = 0;

  /// Adds a state tensor of zeros for every trained tensor, laid out like it; returns the parts that this rank updates,
  /// in the order of `trained`. Collective if ranks share weights: they share the state then.
  std::vector<at::Tensor> add_state(const char* kind, const Trained& trained);
  /// The same for one of them.
  at::Tensor add_state(const char* kind, const parallel::LogicalTensor& tensor, at::ScalarType dtype = at::kFloat);
  /// Adds state with its own shape, which every rank holds whole.
  void add_state(StateTensor state) { state_.push_back(std::move(state)); }

 private:
  std::vector<Group> groups_of(const Trained& trained) const;

  double weight_decay_, learning_rate_, lora_plus_;
  int64_t steps_ = 0;
  std::vector<StateTensor> state_;
};

/// Whether an element's update depends on its own gradient and state alone, so that ranks that share the memory of
/// weights may each update a part of them.
bool updates_by_element(config::OptimizerName optim);

/// Collective. The optimizer of a run, with new state for the trained tensors among `tensors`.
std::unique_ptr<Optimizer> make_optimizer(const config::TrainingConfig& options,
                                          const std::vector<parallel::LogicalTensor>& tensors, dist::Comm& comm);

}  // namespace trainer::optim
