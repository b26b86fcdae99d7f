// Optimisers over this rank's pieces of the trained parameters.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/config/sections.h"
#include "engine/dist/comm.h"
#include "engine/parallel/logical_tensor.h"

namespace trainer::optim {

/// One piece of optimiser state.
struct StateTensor {
  std::string kind;            // "exp_avg", "exp_avg_sq", "momentum", …
  std::string parameter;       // Hugging Face's name
  at::Tensor value;            // flat, fp32; the optimiser's own, so that loading copies into it
  std::vector<int64_t> shape;  // where it has a shape of its own: of the whole, which every rank holds.
                               // Else empty: it is laid out like the piece of the parameter

  /// The state as a tensor of the whole model. `of`: the parameter it belongs to.
  parallel::LogicalTensor logical(const parallel::LogicalTensor& of) const;
};

/// The trained tensors of a model, in its order.
using Trained = std::vector<parallel::LogicalTensor>;

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  /// Collective. Updates the trained values in place from their gradients, which it may overwrite.
  void step(const std::vector<parallel::LogicalTensor>& tensors, double learning_rate);

  /// All state.
  const std::vector<StateTensor>& state() const { return state_; }
  /// What checkpoints call it ("adamw"): state of one optimiser is not another's.
  virtual const char* name() const = 0;
  int64_t steps() const { return steps_; }
  void set_steps(int64_t steps) { steps_ = steps; }

 protected:
  /// Tensors that are updated alike.
  struct Group {
    double weight_decay = 0;
    double rate = 1;  // how many times the learning rate of the run
    std::vector<at::Tensor> values, grads;
    std::vector<size_t> places;  // of each tensor among the trained ones
  };
  explicit Optimizer(const config::TrainingConfig& options);

  /// Before the groups are updated, on every rank, with all that is trained: what needs other ranks or other tensors.
  virtual void prepare(const Trained& trained) {}
  virtual void update(Group& group, double learning_rate) = 0;

  /// State for every trained tensor, laid out like it and filled with `start`; returned in the order of `trained`.
  std::vector<at::Tensor> add_state(const char* kind, const Trained& trained, double start = 0);
  /// State of a shape of its own, which every rank holds whole.
  void add_state(StateTensor state) { state_.push_back(std::move(state)); }

 private:
  std::vector<Group> groups_of(const Trained& trained) const;

  double weight_decay_, learning_rate_, lora_plus_;
  int64_t steps_ = 0;
  std::vector<StateTensor> state_;
};

/// The optimiser of a run, with fresh state for the trained ones among `tensors`.
std::unique_ptr<Optimizer> make_optimizer(const config::TrainingConfig& options,
                                          const std::vector<parallel::LogicalTensor>& tensors, dist::Comm& comm);

}  // namespace trainer::optim
